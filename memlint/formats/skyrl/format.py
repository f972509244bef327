"""The SkyRL format: commands of `skyrl.train.entrypoints.main_base` and of programs made with it, read in SkyRL 0.3.0
and in skyrl-train 0.1.0 to 0.4.0.

A command's overrides lie over SkyRL's own defaults. Forks are many, and most keep its keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.skyrl import behaviour
from memlint.formats.skyrl.config import SkyRLConfig, config_of
from memlint.formats.skyrl.issues import skyrl_issues
from memlint.formats.skyrl.keys import KEYS
from memlint.formats.skyrl.reading import put_adapters_of_plans
from memlint.formats.skyrl.recognise import NAME, SCHEMA, recognise
from memlint.formats.verl.model import find_model
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "RESOLVES_REFERENCES", "SCHEMA", "edits", "parse", "recognise", "skips_rule"]

DIALECT = "omegaconf"
RESOLVES_REFERENCES = True  # OmegaConf


def parse(document: Document, context: Context) -> Parsed:
    """The document as one run. Never raises on any value."""
    value = document.value
    if not isinstance(value, dict):
        return Parsed(NAME, (), (), (document,))
    config = config_of(document, KEYS, context)
    find_model(config)
    fields = Fields()
    _fill(fields, config)
    below = (config.base.document,) if config.base is not None else ()
    run = fields.run(NAME, document.path, tuple(one.path for one in below))
    raw, places = {"config": value}, {"config": (document.path, ())}
    return Parsed(NAME, (run,), (*skyrl_issues(config), *fields.issues), (document, *below), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """`changes` as edits of the file or of the command's overrides; None where SkyRL has no key for one of them."""
    from memlint.formats.skyrl.edits import skyrl_edits  # writes keys back: for fixes

    return skyrl_edits(parsed, run, changes)


def skips_rule(rule: str, document: Document, context: Context) -> bool:
    """PAR009 speaks of FSDP on one GPU: SkyRL has no other engine for it."""
    return rule == "PAR009"


def _fill(fields: Fields, config: SkyRLConfig) -> None:
    """Put all fields: the code's own behaviour first, then the keys, in the order of their table."""
    fields.put("stack.framework", NAME, Origin("inferred", detail="by its keys"))
    fields.behave(*behaviour.ALWAYS)
    if not config.is_older:
        fields.behave(behaviour.EXPANDABLE)
    apply_hardware(fields, config.context, unused=OTHER_TRAINERS)
    KEYS.read(fields, config, config)
    put_adapters_of_plans(fields, config)
    read_start(fields, config.own.document, KEYS)
