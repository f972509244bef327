"""Issues of a training config of AutoTrain: what its parser and its parameters refuse, and what it reads nowhere.

autotrain-advanced 0.8.36 parser.py (AutoTrainConfigParser), trainers/common.py (AutoTrainParams), commands.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.autotrain.config import AutotrainConfig
from memlint.formats.autotrain.keys import ADAPTER, BACKEND, LENGTH, QUANTIZATION
from memlint.formats.autotrain.recognise import SCHEMA, TASKS, TRAINERS
from memlint.formats.base import Issue
from memlint.formats.fields import interpolated
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.unread_texts import unread_texts

_REFUSES = "AutoTrain refuses to start"
_NEEDED = ("base_model", "project_name", "log", "backend", "data")
_NEEDED_OF_DATA = ("path", "chat_template", "column_mapping", "train_split", "valid_split")
_BACKENDS = ("ddp", "deepspeed")
_LONGEST_NAME = 50


def autotrain_issues(config: AutotrainConfig) -> tuple[Issue, ...]:
    if config.is_command:
        return (*_trainer(config), *_backend(config), *_without_effect(config))
    value = config.section.value
    found = schema_issues(value, config.section.document.path, SCHEMA, config.context.versions)
    texts = unread_texts(config.section, compiled_schema(SCHEMA).schema, _REFUSES)
    every = (*_missing(config), *_task(config), *_trainer(config), *_project(config), *_backend(config))
    return (*found, *texts, *every, *_read_nowhere(config), *_without_effect(config))


def _issue(config: AutotrainConfig, code: str, message: str, *path: str | int, severity: str = "error") -> Issue:
    return config.section.issue(code, message, *path, severity=severity)


def _missing(config: AutotrainConfig) -> Iterator[Issue]:
    """What the parser takes without a default: it ends in a KeyError."""
    value = config.section.value
    for name in _NEEDED:
        if value.get(name) is None:
            yield _issue(config, "missing-key", f"`{name}` is missing: {_REFUSES}")
    data: Any = value.get("data")
    for name in _NEEDED_OF_DATA if isinstance(data, dict) else ():
        if name not in data:
            yield _issue(config, "missing-key", f"`data.{name}` is missing: {_REFUSES}", "data")


def _task(config: AutotrainConfig) -> Iterator[Issue]:
    task: Any = config.section.value.get("task")
    if isinstance(task, str) and task not in TASKS:
        meant = nearest(task, tuple(TASKS))
        hint = f"; `{meant}`?" if meant else ""
        yield _issue(config, "bad-value", f"`{task}` is no task of a language model{hint}: {_REFUSES}", "task")


def _trainer(config: AutotrainConfig) -> Iterator[Issue]:
    if config.trainer not in TRAINERS and config.open_because("params.trainer") is None:
        message = f"`{config.trainer}` is no trainer ({', '.join(TRAINERS)}): {_REFUSES}"
        yield _issue(config, "bad-value", message, *config.path("params.trainer"))


def _project(config: AutotrainConfig) -> Iterator[Issue]:
    """Letters, digits and hyphens, 50 at most: AutoTrainParams."""
    name = config.section.value.get("project_name")
    if not isinstance(name, str) or interpolated(name):
        return
    if not name.replace("-", "").isalnum():
        message = f"`project_name: {name}` has more than letters, digits and hyphens: {_REFUSES}"
        yield _issue(config, "bad-value", message, "project_name")
    elif len(name) > _LONGEST_NAME:
        message = f"`project_name` has more than {_LONGEST_NAME} letters: {_REFUSES}"
        yield _issue(config, "bad-value", message, "project_name")


def _backend(config: AutotrainConfig) -> Iterator[Issue]:
    word = config.text(BACKEND)
    if word and word not in _BACKENDS and not interpolated(word) and config.context.gpus != 1:
        message = f"`{word}` is no backend of several GPUs ({', '.join(_BACKENDS)}): {_REFUSES}"
        yield _issue(config, "bad-value", message, *config.path(BACKEND))


def _read_nowhere(config: AutotrainConfig) -> Iterator[Issue]:
    """Parameters that AutoTrain has not are dropped with a warning, sections that it has not without one."""
    value, known = config.section.document.value, _parameters()
    params = value.get("params")
    for name in params if isinstance(params, dict) else ():
        if name not in known:
            meant = nearest(str(name), known)
            hint = f"; `{meant}`?" if meant else ""
            message = f"`params.{name}` is no parameter of AutoTrain, and has no effect{hint}"
            yield config.section.issue("ignored-key", message, "params", str(name), severity="warning", on_key=True)


def _parameters() -> Mapping[str, Any]:
    found: Mapping[str, Any] = compiled_schema(SCHEMA).schema["properties"]["params"]["properties"]
    return found


def _without_effect(config: AutotrainConfig) -> Iterator[Issue]:
    """What another parameter takes the effect from."""
    if config.written(QUANTIZATION) is not None and config.written(ADAPTER) is None and config.text(QUANTIZATION):
        message = "`quantization` has no effect without `peft: true`: all of the model trains, from fp32 weights"
        yield _issue(config, "ignored-key", message, *config.path(QUANTIZATION), severity="warning")
    given, length = config.integer(LENGTH), config.length
    if given is not None and length is not None and given > length:
        message = f"`block_size: {given}` is cut to `model_max_length`, {length} tokens"
        yield _issue(config, "ignored-key", message, *config.path(LENGTH), severity="warning")
