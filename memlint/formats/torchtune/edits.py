"""Changes of a run as edits of a torchtune file, or of a command's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.section_edits import changed_keys, edits_of
from memlint.formats.torchtune.keys import KEYS
from memlint.formats.verl.edits import overrides
from memlint.run import Run

# What follows from other keys: how a loss in parts is made.
_FOLLOW = ("loss.logits_first", "loss.compiled", "precision.upcast_lmhead_output")


def torchtune_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """None where torchtune has no key for a change, or a command would have to remove an argument."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in _FOLLOW}
    new_values = changed_keys(KEYS, parsed.raw.get("torchtune", config), run, wanted)
    if not new_values:
        return None
    if parsed.documents[0].start is not None:
        return overrides(place, new_values) if None not in new_values.values() else None
    kept = {key: value for key, value in new_values.items() if value is not None}
    removed = tuple(
        Edit(place[0], (*place[1], *key.split(".")), "remove") for key, value in new_values.items() if value is None
    )
    return (*edits_of(config, place, kept), *removed)
