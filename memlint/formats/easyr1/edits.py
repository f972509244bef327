"""Changes of a run as edits of an EasyR1 file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.easyr1.keys import KEYS
from memlint.formats.section_edits import edits_of, new_values
from memlint.formats.verl.edits import overrides
from memlint.run import Run

# What follows from other keys: the accumulation from the global batch, the length from prompt and response.
_FOLLOW = ("batch.gradient_accumulation_steps", "sequence.length", "method.adapter_dtype")


def easyr1_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    found = new_values(KEYS, parsed, run, changes, _FOLLOW)
    if found is None:
        return None
    return edits_of(*found) if parsed.documents[0].start is None else overrides(found.place, found.values)
