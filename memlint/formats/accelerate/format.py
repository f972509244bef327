"""accelerate launch files (accelerate 1.15 commands/config): how many processes, which engine, which precision.

Such a file is a companion: it trains nothing by itself, so alone its run has purpose "partial". A training format joins
it with `apply_accelerate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.accelerate.issues import accelerate_issues
from memlint.formats.accelerate.parallel import apply_accelerate, apply_world, mixed_precision
from memlint.formats.accelerate.recognise import NAME, SCHEMA, recognise
from memlint.formats.base import Context, Parsed
from memlint.formats.fields import Fields, root
from memlint.formats.hardware import apply_hardware
from memlint.run import Run
from memlint.source.document import Document

# `parse`, `edits`, ... are the format's; the rest is for formats whose runs such a file launches.
__all__ = ["DIALECT", "NAME", "SCHEMA", "edits", "parse", "recognise"]
__all__ += ["accelerate_issues", "apply_accelerate", "apply_world", "mixed_precision"]

DIALECT = "yaml11"


def parse(document: Document, context: Context) -> Parsed:
    """A launch file alone: a partial run, which knows the engine, its sharding and the GPUs but no model."""
    section = root(document)
    fields = Fields()
    apply_hardware(fields, context)
    apply_world(fields, section)
    named = apply_accelerate(fields, section, None, context)
    run = fields.run(NAME, document.path, purpose="partial")
    raw: dict[str, Any] = {"config": document.value, "accelerate": document.value}
    places: dict[str, tuple[str, tuple[str | int, ...]]] = dict.fromkeys(raw, (document.path, ()))
    documents = [document]
    if named is not None:
        documents.append(named.document)
        raw["deepspeed"], places["deepspeed"] = named.value, (named.document.path, ())
    issues = (*accelerate_issues(section, context), *fields.issues)
    return Parsed(NAME, (run,), issues, tuple(documents), raw, places)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """A launch file has no run of its own, so that nothing is changed through it."""
    return None
