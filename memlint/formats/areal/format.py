"""The AReaL format: files and commands of its launchers and of programs made with it, read in AReaL 0.3.1 to 2.0.0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.areal import behaviour
from memlint.formats.areal.config import PACKAGE, ArealConfig, config_of, has_copy
from memlint.formats.areal.issues import areal_issues
from memlint.formats.areal.keys import KEYS
from memlint.formats.areal.recognise import NAME, SCHEMA, recognise
from memlint.formats.areal.roles import read_stage
from memlint.formats.areal.training import adapters_of_plans, read_unmodelled, readings, uses_fsdp
from memlint.formats.base import Context, Parsed
from memlint.formats.entailed import put_entailed
from memlint.formats.fields import Fields
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.key_releases import put_release
from memlint.formats.keys import read_start
from memlint.formats.verl.model import find_model
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "copy_of", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # OmegaConf


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run: that of the actor's GPUs. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, KEYS, context)
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    below = tuple(one.document for one in (config.named, config.base) if one is not None)
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    run = run._replace(readings=readings(config, run))
    raw, places = {"config": value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), (*areal_issues(fields, config), *fields.issues), (document, *below), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where AReaL has no key for one of them."""
    from memlint.formats.areal.edits import areal_edits  # writes keys back: for fixes

    return areal_edits(parsed, run, changes)


def copy_of(rule: str, context: Context) -> str:
    return "AReaL" if has_copy(context) else ""


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: AReaL has no other engine for it."""
    return rule == "PAR009"


def _fill(fields: Fields, config: ArealConfig) -> None:
    """Put all fields: the code's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    put_release(fields, PACKAGE, config.context)
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    read_stage(fields, config)
    KEYS.read(fields, config, config)
    read_unmodelled(fields, config)
    if uses_fsdp(config) and fields.get("method.kind") == "full":
        put_entailed(fields, adapters_of_plans, "AReaL keeps an adapter in the base's dtype")
    read_start(fields, config.own.document, KEYS)
