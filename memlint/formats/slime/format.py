"""The slime format: commands of its `train.py` and `train_async.py`, read in slime 0.1.0 to 0.3.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import OTHER_TRAINERS, apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.megatron.engine import put_flags, read_unmodelled
from memlint.formats.slime import behaviour
from memlint.formats.slime.backend import read_forks
from memlint.formats.slime.config import SOURCE, SlimeConfig
from memlint.formats.slime.issues import slime_issues
from memlint.formats.slime.keys import KEYS
from memlint.formats.slime.recognise import NAME, SCHEMA, recognise
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "yaml12"


def parse(document: Document, context: Context) -> Parsed:
    """The command as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = SlimeConfig(root(document), KEYS, context)
    fields = Fields()
    fields.put("stack.framework", NAME, Origin("inferred", detail="the program that the command starts"))
    apply_hardware(fields, context, unused=OTHER_TRAINERS)
    fields.behave(*behaviour.ALWAYS)
    KEYS.read(fields, config, config)
    if not config.is_fsdp:
        read_unmodelled(fields, config)
        put_flags(fields, config, SOURCE)
    read_forks(fields, config)
    read_start(fields, document, KEYS)
    run = fields.run(NAME, document.path)
    issues = (*slime_issues(fields, config), *fields.issues)
    return Parsed(NAME, (run,), issues, (document,), {"config": document.value}, {"config": (document.path, ())})


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """None: there is a least figure alone, so that no change is known to fit."""
    return None
