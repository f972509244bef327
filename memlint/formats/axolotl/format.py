"""Axolotl: one YAML file for `axolotl train`, the launch file or DeepSpeed JSON behind it.

Read in axolotl 0.19.0 (utils/schemas, utils/config, loaders, core/builders).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from memlint.findings import Edit
from memlint.formats.axolotl.checks import skips_rule
from memlint.formats.axolotl.config import AxolotlConfig, config_of
from memlint.formats.axolotl.issues import axolotl_issues, has_copy
from memlint.formats.axolotl.keys import FEATURE_KEYS, KEYS, PARALLEL_KEYS, RUN_KEYS
from memlint.formats.axolotl.loss import read_fused_loss_where_stated
from memlint.formats.axolotl.model import find_model
from memlint.formats.axolotl.parallel import UsedSection, apply_engine, apply_launch_file, read_what_starts_fsdp
from memlint.formats.axolotl.recognise import recognise
from memlint.formats.axolotl.releases import NAME, SCHEMA
from memlint.formats.axolotl.training import apply_stack
from memlint.formats.axolotl.unmodelled import apply_unmodelled_model
from memlint.formats.base import Context, Issue, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.own_reader import own_reader_note, rule_applies
from memlint.formats.training_arguments import apply as apply_arguments
from memlint.formats.without_training import apply_without_training
from memlint.run import Entailed, Run
from memlint.source.document import Document, Path

__all__ = [
    "DIALECT",
    "NAME",
    "SCHEMA",
    "edits",
    "left_open",
    "parse",
    "recognise",
    "rule_applies",
    "skips_rule",
    "unjudged",
]

DIALECT = "yaml11"


def parse(document: Document, context: Context) -> Parsed:
    """The file as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = find_model(config_of(root(document), context, KEYS))
    fields = Fields()
    apply_arguments(fields, config.hf, config.versions)
    apply_hardware(fields, context)
    apply_stack(fields, config)
    RUN_KEYS.read(fields, config, config)
    used = apply_launch_file(fields, config)
    PARALLEL_KEYS.read(fields, config, config)
    used += apply_engine(fields, config)
    FEATURE_KEYS.read(fields, config, config)
    apply_unmodelled_model(fields, config)
    read_what_starts_fsdp(fields, config)
    read_fused_loss_where_stated(fields, config)
    put_entailed(fields, partial(_entailed, config), "Axolotl 0.19 loaders/adapter.py, loaders/model.py")
    if config.own.flag("inference"):
        _apply_inference(fields)
    return _finished(fields, config, used)


def _entailed(config: AxolotlConfig, fields: Fields) -> Iterable[Entailed | None]:
    from memlint.formats.axolotl.entailed import find_entailed  # for plans

    return find_entailed(config, fields)


def unjudged(document: Document, context: Context) -> Issue | None:
    """The note on a file that a script of the repository reads instead of Axolotl, whose commands take YAML (axolotl
    0.19.0 cli/config.py: `config/*.yml` files and folders of them)."""
    if document.syntax == "json" and document.path.endswith(".json"):
        message = "Axolotl's files are YAML, so another program reads this one: its keys are not judged"
        return Issue("own-reader", message, document.path, severity="info")
    return own_reader_note(document, context, NAME, SCHEMA, has_copy)


def left_open(document: Document) -> str:
    """The bare `datasets:` of a file that a program completes: Axolotl itself refuses it (AXO083)."""
    value = document.value
    is_bare = isinstance(value, dict) and value.get("datasets", ()) is None and not value.get("pretraining_dataset")
    return "datasets" if is_bare else ""


def _apply_inference(fields: Fields) -> None:
    """Inference answers one prompt at a time, on one card, with 1,024 new tokens at most (cli/inference.py:72 and
    132-141)."""
    reason = "`inference: true`: the model answers prompts"
    apply_without_training(fields, reason)
    fields.infer("batch.micro_batch_size", 1, reason)
    fields.infer("sequence.max_new_tokens", 1024, "cli/inference.py: GenerationConfig(max_new_tokens=1024)")
    fields.infer("evaluation.enabled", False, reason)
    fields.infer("parallelism.engine", "single", "cli/inference.py: `model.to(cfg.device)`")


def _finished(fields: Fields, config: AxolotlConfig, used: tuple[UsedSection, ...]) -> Parsed:
    document = config.section.document
    others = tuple(dict.fromkeys(one.section.document.path for one in used if one.section.document is not document))
    purpose = "inference" if config.own.flag("inference") else "train"
    run = fields.run(NAME, document.path, others, purpose)
    raw: dict[str, Any] = {"config": document.value}
    places: dict[str, tuple[str, Path]] = {"config": (document.path, ())}
    for one in used:
        raw[one.name] = one.section.value
        if one.editable:
            places[one.name] = (one.section.document.path, one.section.pointer)
    files = {one.section.document.path: one.section.document for one in used if one.section.document is not document}
    return Parsed(NAME, (run,), (*axolotl_issues(config), *fields.issues), (document, *files.values()), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of this file or its DeepSpeed file; None where a change cannot be expressed."""
    from memlint.formats.axolotl.edits import axolotl_edits  # writes keys back: for fixes

    return axolotl_edits(parsed, run, changes)
