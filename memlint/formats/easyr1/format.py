"""The EasyR1 format: files and command lines of `verl.trainer.main`, read in EasyR1 0.3.3.

A command's overrides lie over the file that it gives as `config=`. Forks of EasyR1 are many, and most keep its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.easyr1 import behaviour
from memlint.formats.easyr1.config import EasyR1Config, config_of
from memlint.formats.easyr1.issues import easyr1_issues
from memlint.formats.easyr1.keys import KEYS, STRATEGY
from memlint.formats.easyr1.recognise import NAME, SCHEMA, recognise
from memlint.formats.fields import Fields
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.verl.config import has_copy
from memlint.formats.verl.model import find_model
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # OmegaConf


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run, or as none where it validates alone. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, KEYS, context)
    if config.flag("trainer.val_only"):
        return Parsed(NAME, (), (), (document,))
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    below = (config.named.document,) if config.named is not None else ()
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    raw, places = {"config": value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), (*easyr1_issues(document, context), *fields.issues), (document, *below), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where EasyR1 has no key for one of them."""
    from memlint.formats.easyr1.edits import easyr1_edits  # writes keys back: for fixes

    return easyr1_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "EasyR1" if context.repository.own_functions("verl/trainer") else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: EasyR1 has no other engine for it."""
    return rule == "PAR009"


def _fill(fields: Fields, config: EasyR1Config) -> None:
    """Put all fields: the code's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    if config.written(STRATEGY) is not None or not has_copy(config.context):  # older copies have no other AdamW
        fields.behave(behaviour.HALF_OPTIMIZER)
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    KEYS.read(fields, config, config)
    read_start(fields, config.own.document, KEYS)
