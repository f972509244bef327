"""Changes of a run as edits of a TorchTitan file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.section_edits import edits_of, new_values
from memlint.formats.torchtitan.keys import KEYS
from memlint.run import Run

# What follows from other keys: the accumulation from the global batch.
_FOLLOW = ("batch.gradient_accumulation_steps",)


def titan_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    found = new_values(KEYS, parsed, run, changes, _FOLLOW)
    if found is None:
        return None
    spelled = {KEYS[name].spelling_in(found.config) or name: value for name, value in found.values.items()}
    return edits_of(found.config, found.place, spelled)
