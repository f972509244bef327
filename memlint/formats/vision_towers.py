"""Vision towers of runs whose framework does not freeze them by itself, and samples that have no image."""

from __future__ import annotations

from typing import Any

from memlint.formats.fields import Fields
from memlint.run import Origin

_PARTS = ("method.freeze_vision_tower", "method.freeze_multi_modal_projector")

_OF_TOWER = ("visual", "vision")  # in the names of a tower's modules


def excludes_tower(modules: object) -> bool:
    """Whether a pattern or names of modules that get no adapter are a vision tower's."""
    return any(word in str(modules) for word in _OF_TOWER)


def apply_towers(fields: Fields, architecture: Any, frozen: bool, origin: Origin) -> None:
    """Set whether the vision tower and the projector are frozen.

    A tower that is not frozen trains; its memory depends on the images, so the estimate is an interval. A tower whose
    layers memlint does not model counts as frozen, as if the run had text alone.
    """
    towers = getattr(architecture, "towers", ())
    read = bool(towers) and all(tower.layer_class for tower in towers)
    for part in _PARTS:
        fields.put(part, frozen or not read, origin)


def has_no_images(fields: Fields, origin: Origin) -> None:
    """Set that no sample has an image; a number that the user states stays."""
    if not isinstance(fields.get("sequence.images"), int):
        fields.put("sequence.images", 0, origin)
