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
_FOLLOW = ("loss.logits_first", "precision.upcast_lmhead_output")


def torchtune_edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in _FOLLOW}
    new_values = changed_keys(KEYS, config, run, wanted)
    if not new_values:
        return None
    if parsed.documents[0].start is not None:
        return overrides(place, {key: value for key, value in new_values.items() if value is not None})
    kept = {key: value for key, value in new_values.items() if value is not None}
    removed = tuple(
        Edit(place[0], (*place[1], *key.split(".")), "remove") for key, value in new_values.items() if value is None
    )
    return (*edits_of(config, place, kept), *removed)
