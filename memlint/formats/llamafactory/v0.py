"""LLaMA-Factory's v0 keys (`model_name_or_path`, `finetuning_type`, `cutoff_len`, ...) as a `Run`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from memlint.formats.base import Context, Issue, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.issues import FILE_IS_AWAY
from memlint.formats.keys import read_start
from memlint.formats.llamafactory.behaviour import BEHAVIOUR
from memlint.formats.llamafactory.config import LlamaFactoryConfig, config_of, default_origin
from memlint.formats.llamafactory.inference import answers_requests
from memlint.formats.llamafactory.issues import v0_issues
from memlint.formats.llamafactory.keys import ENGINE_KEYS, INFERENCE_KEYS, KEYS, RUN_KEYS
from memlint.formats.llamafactory.model import find_model
from memlint.formats.llamafactory.parallel import (
    Companion,
    apply_engine,
    apply_launch_files,
    apply_launcher,
    apply_unused_parameters,
    read_what_starts_fsdp,
)
from memlint.formats.llamafactory.recognise import is_v1
from memlint.formats.training_arguments import KEYS as TRAINING_ARGUMENTS
from memlint.formats.training_arguments import apply as apply_training_arguments
from memlint.run import Entailed, Origin
from memlint.source.document import Document

NAME = "llamafactory"
PURPOSES = {"training": "train", "inference": "inference", "export": "export"}


def parse_v0(document: Document, context: Context, role: str) -> Parsed:
    """The file as one run. Never raises on any value."""
    view = find_model(config_of(root(document), context, role, KEYS))
    fields = Fields()
    apply_stack(fields, view)
    apply_training_arguments(fields, view.hf, view.versions)
    apply_hardware(fields, context)
    RUN_KEYS.read(fields, view, view)
    apply_unused_parameters(fields, view)
    companions = apply_launch_files(fields, view)
    ENGINE_KEYS.read(fields, view, view)
    companions += apply_engine(fields, view)
    apply_launcher(fields, view)
    if not view.training:
        apply_inference(fields, view)
        INFERENCE_KEYS.read(fields, view, view)
    read_start(fields, document, KEYS, TRAINING_ARGUMENTS)
    if view.training:
        read_what_starts_fsdp(fields, view)
        put_entailed(fields, partial(_entailed, view), "LLaMA-Factory 0.9.5 model/adapter.py")
    return finish(fields, view, companions, v0_issues(view, document))


def _entailed(view: LlamaFactoryConfig, fields: Fields) -> Iterable[Entailed | None]:
    from memlint.formats.llamafactory.entailed import find_entailed  # for plans

    return find_entailed(view, fields)


def finish(
    fields: Fields, view: LlamaFactoryConfig, companions: tuple[Companion, ...], issues: tuple[Issue, ...]
) -> Parsed:
    """The run with everything that was said about it."""
    if view.role == "export":
        _exported(fields, view)
    document = view.section.document
    related = tuple(dict.fromkeys(c.document.path for c in companions if c.document is not document))
    run = fields.run(NAME, document.path, related, PURPOSES[view.role])
    files = [document] + [c.document for c in companions if c.document is not document]
    raw: dict[str, Any] = {"config": document.value, **{c.name: c.value for c in companions}}
    places = {"config": (document.path, ()), **{c.name: (c.document.path, c.pointer) for c in companions}}
    reported = _as_notes(fields.issues) if document.start and document.start.program.is_elsewhere else fields.issues
    return Parsed(NAME, (run,), (*issues, *reported), tuple(files), raw, places)


def _as_notes(issues: Iterable[Issue]) -> list[Issue]:
    """The issues of a command that is for another folder, a clone of LLaMA-Factory: its files are there."""
    return [one._replace(severity="info") if one.code in FILE_IS_AWAY else one for one in issues]


def apply_stack(fields: Fields, view: LlamaFactoryConfig) -> None:
    """LLaMA-Factory pins the libraries below it (pyproject.toml): the newest that it allows is assumed."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="the file's keys"))
    fields.behave(*BEHAVIOUR)
    origin = default_origin(view.versions, "pyproject.toml")
    for name in ("transformers", "torch", "peft", "accelerate", "trl", "deepspeed"):
        fields.put(f"stack.{name}", tuple(view.versions[name]), view.version_origins.get(name, origin))
    if "llamafactory" in view.context.versions:
        origin = view.context.version_origins.get("llamafactory", Origin("setting"))
    release = tuple(view.versions["llamafactory"])
    fields.put("stack.framework_version", release, view.version_origins.get("llamafactory", origin))


def apply_inference(fields: Fields, view: LlamaFactoryConfig) -> None:
    """Chat and API answer one request; `do_predict` and `do_eval` go through the evaluation loop."""
    if answers_requests(view):
        fields.infer("batch.micro_batch_size", 1, "one request at a time")
        fields.infer("evaluation.enabled", False, "requests are answered, no data set is evaluated")
    else:
        size = view.hf.integer("per_device_eval_batch_size")
        fields.put("batch.micro_batch_size", size or 8, view.hf.origin("per_device_eval_batch_size"))
        fields.infer("evaluation.enabled", True, "the evaluation loop runs, and nothing else")
    fields.infer("checkpointing.mode", "none", "nothing trains")


def _exported(fields: Fields, view: LlamaFactoryConfig) -> None:
    """No step runs, and no card has to hold the model (hparams/parser.py:694-699, train/tuner.py: export_model)."""
    reason = "an export merges and saves weights: no step runs"
    if not is_v1(view.section.value):
        where = "in host memory: nothing is on a card"
        if view.own.get("export_device") not in (None, "cpu"):
            where = "wherever there is room: `device_map: auto` fills the visible cards, then host memory"
        reason = f"{reason}, and the weights are {where}"
    fields.unknown("parallelism.engine", reason)
