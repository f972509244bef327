"""Keys of a NeMo-RL file, or of a command's overrides, and the types of their values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from memlint.formats.base import Issue
from memlint.formats.declared_types import is_declared_so
from memlint.formats.fields import as_bool, value_at
from memlint.formats.nemo_rl.config import NemoConfig, has_copy
from memlint.formats.nemo_rl.recognise import ALGORITHMS, SCHEMA
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.verl.overrides import overridden
from memlint.source.document import Path

_PACKAGE = "nemo_rl"
# Sections whose class is another one, with `enabled` alone, while they are switched off (0.7.0
# nemo_rl/models/policy/__init__.py).
_SWITCHED = frozenset(
    {"dtensor_cfg", "megatron_cfg", "draft", "lora_cfg", "peft", "dynamic_batching", "sequence_packing"}
)
# Programs that lay overrides over the file's keys and take no other (nemo_rl/utils/config.py, parse_hydra_overrides,
# of 0.2 to 0.7).
_PROGRAM = re.compile(r"\brun_(vlm_)?(grpo|grpo_math|grpo_rm|ppo|dpo|sft|rm|distillation)(_math)?\.py$")
_FLAG = "config"
_CHECKED_SINCE = (0, 7)  # MasterConfig is a model of pydantic


def key_issues(config: NemoConfig) -> tuple[Issue, ...]:
    section = config.own
    found = schema_issues(section.value, section.document.path, SCHEMA, config.context.versions)
    read = (issue for issue in found if _is_read(issue, config))
    return (*read, *_unknown_overrides(config), *_missing(config), *_nulls(config))


def _is_read(issue: Issue, config: NemoConfig) -> bool:
    value = value_at(config.own.value, issue.pointer)
    if not _is_in_force(config, issue.pointer):
        return False
    return issue.code != "wrong-type" or not is_declared_so(issue, value, config.context, _PACKAGE)


def _is_in_force(config: NemoConfig, path: Path) -> bool:
    """Whether NeMo-RL looks at the key: not in a section that is switched off, or that is another algorithm's."""
    algorithm = config.algorithm()
    if path and path[0] in ALGORITHMS and path[0] != algorithm:
        return False
    if path and path[0] == "loss_fn" and algorithm not in ("grpo", "ppo"):
        return False
    sections = (path[: depth + 1] for depth, step in enumerate(path) if step in _SWITCHED)
    return all(path == (*section, "enabled") or _is_on(config, section) for section in sections)


def _is_on(config: NemoConfig, path: Path) -> bool:
    return as_bool(config.value(".".join(map(str, (*path, "enabled"))))) is True


def _unknown_overrides(config: NemoConfig) -> Iterator[Issue]:
    """Overrides of keys that no file below has, which Hydra refuses unless they are written with `+`."""
    start = config.own.document.start
    if start is None or config.names or not config.below or not _PROGRAM.search(start.program.entry):
        return
    for place in overridden(config.own):
        if place == (_FLAG,) or any(_has(section.value, place) for section in config.below):
            continue
        known = [key for one in config.below for key in (value_at(one.value, place[:-1]) or {})]
        near = nearest(place[-1], known)
        name = ".".join(place)
        told = f"did you mean `{'.'.join((*place[:-1], near))}`?" if near else f"`+{name}=...` would add it"
        message = f"Hydra refuses the override of `{name}`, which the recipe does not have: {told}"
        yield config.own.issue("unknown-key", message, *place, on_key=True, suggestion=near)


def _has(value: object, place: Path) -> bool:
    for step in place:
        if not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return True


def _missing(config: NemoConfig) -> Iterator[Issue]:
    """Keys that a section must have, where the release is known to look for them."""
    sections: Mapping[str, list[str]] = compiled_schema(SCHEMA).schema["x-memlint-required"]
    for name, keys in sections.items() if _checks_types(config) else ():
        path = tuple(name.split("."))
        if not isinstance(value_at(config.own.value, path), dict) or not _is_in_force(config, path):
            continue
        absent = [key for key in keys if config.is_absent(f"{name}.{key}")]
        if absent:
            message = f"`{name}` lacks {', '.join(f'`{key}`' for key in absent)}: NeMo-RL refuses to start"
            yield config.own.issue("missing-key", message, *path, on_key=True)


def _nulls(config: NemoConfig) -> Iterator[Issue]:
    for name in compiled_schema(SCHEMA).schema["x-memlint-never-null"] if _checks_types(config) else ():
        path = tuple(name.split("."))
        section = value_at(config.own.value, path[:-1])
        if isinstance(section, dict) and section.get(path[-1], 0) is None and _is_in_force(config, path):
            yield config.own.issue("bad-value", f"`{name}` takes no null: NeMo-RL refuses to start", *path)


def _checks_types(config: NemoConfig) -> bool:
    """Whether somebody states a release whose MasterConfig is a model of pydantic (0.7)."""
    return config.stated >= _CHECKED_SINCE and not config.names and not has_copy(config.context)
