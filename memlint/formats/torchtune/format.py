"""The torchtune format: files and commands of `tune run`, read in torchtune 0.3 to 0.6.1 and its main branch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields
from memlint.formats.hardware import apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.schema.validate import schema_issues
from memlint.formats.torchtune import behaviour
from memlint.formats.torchtune.config import TuneConfig, config_of
from memlint.formats.torchtune.issues import torchtune_issues
from memlint.formats.torchtune.keys import KEYS
from memlint.formats.torchtune.recognise import NAME, SCHEMA, recognise, trains
from memlint.formats.torchtune.training import find_model, read_stage, read_unmodelled
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # OmegaConf
_WITHOUT_TRAINING = ("generate", "eval", "eleuther_eval", "quantize", "quantization", "generation")


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run, or as none where it evaluates, generates or quantises. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, KEYS, context)
    below = (config.named.document,) if config.named is not None else ()
    if not _trains(config):
        return Parsed(NAME, (), (), (document, *below))
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    issues = schema_issues(value, document.path, SCHEMA, context.versions)
    raw = {"config": value, "torchtune": config.merged()}
    places = {"config": (document.path, ())}
    every = (*issues, *torchtune_issues(fields, config), *fields.issues)
    return Parsed(NAME, (run,), every, (document, *below), raw, places)


def _trains(config: TuneConfig) -> bool:
    """Whether the recipe trains: a file by its sections, a command by its recipe."""
    if config.word("device") == "cpu":
        return False
    if config.own.document.start is None:
        return trains(config.own.value)
    return config.recipe.name not in _WITHOUT_TRAINING and not config.recipe.name.startswith("eval")


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where torchtune has no key for one of them."""
    from memlint.formats.torchtune.edits import torchtune_edits  # writes keys back: for fixes

    return torchtune_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "torchtune" if context.repository.own_functions("torchtune/config") else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: some recipes have no other engine. Adapters are not PEFT's. What torchtune's
    loader stops at is not known of a copy of it."""
    if rule.startswith("TUN") and context.repository.own_functions("torchtune/config"):
        return True
    return rule == "PAR009" or rule.startswith("PEF")


def _fill(fields: Fields, config: TuneConfig) -> None:
    """Put all fields: the code's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    apply_hardware(fields, config.context)
    KEYS.read(fields, config, config)
    read_stage(fields, config)
    read_unmodelled(fields, config)
    read_start(fields, config.own.document, KEYS)
