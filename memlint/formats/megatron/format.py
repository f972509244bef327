"""The Megatron-LM format: commands of `pretrain_gpt.py`, read in Megatron-LM core 0.19 and back to 2.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import apply_hardware
from memlint.formats.keys import read_start
from memlint.formats.megatron.config import SOURCE, MegatronConfig
from memlint.formats.megatron.engine import COMMON, put_flags, read_unmodelled
from memlint.formats.megatron.issues import megatron_issues
from memlint.formats.megatron.keys import KEYS
from memlint.formats.megatron.recognise import NAME, SCHEMA, recognise
from memlint.run import Origin, Run
from memlint.source.document import Document

__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]

DIALECT = "yaml12"


def parse(document: Document, context: Context) -> Parsed:
    """The command as one run. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    config = MegatronConfig(root(document), KEYS, context)
    fields = Fields()
    fields.put("stack.framework", NAME, Origin("inferred", detail="the program that the command starts"))
    apply_hardware(fields, context)
    fields.behave(*COMMON)
    KEYS.read(fields, config, config)
    read_unmodelled(fields, config)
    put_flags(fields, config, SOURCE)
    read_start(fields, document)
    run = fields.run(NAME, document.path)
    issues = (*megatron_issues(fields, config), *fields.issues)
    return Parsed(NAME, (run,), issues, (document,), {"config": document.value}, {"config": (document.path, ())})


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """None: there is a least figure alone, so that no change is known to fit."""
    return None
