"""Changes of a run as edits of an AReaL file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.areal.keys import KEYS
from memlint.formats.base import Parsed
from memlint.formats.section_edits import edits_of, new_values
from memlint.formats.verl.edits import overrides
from memlint.run import Run

# What follows from other keys: the sequences and the number of micro-batches from their tokens.
_FOLLOW = ("batch.gradient_accumulation_steps", "batch.micro_batch_size", "method.adapter_dtype")


def areal_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    found = new_values(KEYS, parsed, run, changes, _FOLLOW)
    if found is None:
        return None
    document = parsed.documents[0]
    if document.start is None:
        values = {_as_in_file(name, found.config): value for name, value in found.values.items()}
        return edits_of(found.config, found.place, values)
    return overrides(found.place, found.values)


def _as_in_file(name: str, config: Mapping[str, Any]) -> str:
    """The key of the section that the file has: `model` in older files for supervised training."""
    has_model = isinstance(config.get("model"), dict) and not isinstance(config.get("actor"), dict)
    return f"model.{name.removeprefix('actor.')}" if has_model and name.startswith("actor.") else name
