"""Changes of a run as edits of an EasyR1 file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.easyr1.keys import KEYS
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.formats.verl.edits import overrides
from memlint.run import Run

# What follows from other keys: the accumulation from the global batch, the length from prompt and response.
_FOLLOW = ("batch.gradient_accumulation_steps", "sequence.length", "method.adapter_dtype")


def easyr1_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in _FOLLOW}
    new_values = changed_keys(KEYS, config, run, wanted)
    if not new_values:
        return None
    return edits_of(config, place, new_values) if parsed.documents[0].start is None else overrides(place, new_values)
