"""Vision towers of runs whose framework freezes nothing by itself."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields
from memlint.run import Origin

_PARTS = ("method.freeze_vision_tower", "method.freeze_multi_modal_projector")


def apply_towers(fields: Fields, architecture: Any, frozen: bool, origin: Origin) -> None:
    """The tower trains wherever nobody freezes it: how much that takes depends on the images, so the estimate is an
    interval then. Where nobody has read what a tower does, the run counts as one of text alone, which leaves it idle.
    """
    towers = getattr(architecture, "towers", ())
    read = bool(towers) and all(tower.layer_class for tower in towers)
    for part in _PARTS:
        fields.put(part, frozen or not read, origin)
