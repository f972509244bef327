"""Changes of a run as edits of a TorchTitan file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.formats.torchtitan.keys import KEYS
from memlint.run import Run

# What follows from other keys: the accumulation from the global batch.
_FOLLOW = ("batch.gradient_accumulation_steps",)


def titan_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in _FOLLOW}
    new_values = changed_keys(KEYS, config, run, wanted)
    if not new_values:
        return None
    spelled = {KEYS[name].spelling_in(config) or name: value for name, value in new_values.items()}
    return edits_of(config, place, spelled)
