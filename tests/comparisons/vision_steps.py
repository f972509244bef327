"""The closed form of an image-text model beside a simulated step that really reads images."""

from __future__ import annotations

from typing import Any

from memlint.run import Run, replace
from tests.comparisons.families import Step, run_of

FLAGS = ("method.freeze_vision_tower", "method.freeze_multi_modal_projector")
_AS_LLAMAFACTORY = {"checkpointing.skips_frozen_layers": True, "sequence.always_has_images": True}
FROZEN = {"frozen": (True, True), "projector": (True, False), "trains": (False, False), "not again": (False, False)}


def run_with(config: dict[str, Any], step: Step, trains: str) -> Run:
    """Frozen towers as LLaMA-Factory runs them, others with transformers' own gradient checkpointing."""
    flags: dict[str, Any] = dict(zip(FLAGS, FROZEN[trains], strict=True))
    flags["checkpointing.reentrant"] = trains != "not again"
    return replace(run_of(config, step), {**flags, **(_AS_LLAMAFACTORY if trains == "frozen" else {})})
