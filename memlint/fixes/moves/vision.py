"""Moves of models that read images: fewer pixels, and a vision tower that does not train."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.fixes.proposed_change import ProposedChange
from memlint.memory.vision.images import encoded_tokens
from memlint.run import Run, Unknown

# 1024, 768, 512 and 256 squared; 589824 and 65536 are LLaMA-Factory's defaults for images and for a video's frames
# (0.9.5 hparams/model_args.py, ProcessorArguments).
_SIZES = (1_048_576, 589_824, 262_144, 65_536)


def pixels(run: Run) -> Iterator[ProposedChange]:
    """Patches, and tokens where a tower has no fixed number for an image, grow with pixels (Qwen2-VL: one token for
    28 x 28, arXiv 2409.12191, section 2.1). What is small in a picture is lost, text first."""
    images, videos = run.sequence.image_max_pixels, run.sequence.video_max_pixels
    if isinstance(images, Unknown) or isinstance(videos, Unknown) or not _grows_with_pixels(run):
        return
    for size in _SIZES:
        changes: dict[str, Any] = {}
        if images > size:
            changes["sequence.image_max_pixels"] = size
        if videos > size:
            changes["sequence.video_max_pixels"] = size
        if changes:
            title = f"images of {max(images, videos)} -> {size} pixels"
            yield ProposedChange(title, changes, "images", safe=False)


def freeze(run: Run) -> Iterator[ProposedChange]:
    """A tower without gradients keeps nothing of its layers and has no states; LLaMA-Factory freezes tower and
    projector unless told otherwise (0.9.5 hparams/finetuning_args.py, freeze_vision_tower), as does LLaVA in its second
    stage with the tower (Liu et al. 2023, arXiv 2304.08485, section 4.2)."""
    method = run.method
    if not _sees(run) or method.kind not in ("full", "freeze", "lora") or method.freeze_language_model:
        return
    parts = ("freeze_vision_tower", "freeze_multi_modal_projector")
    trained = [f"method.{part}" for part in parts if not getattr(method, part)]
    if "method.freeze_vision_tower" in trained:
        if len(trained) == 2 and run.planning.freezes_projector_apart:
            yield ProposedChange("freeze the vision tower", {trained[0]: True}, "tower", safe=False)
        title = "freeze the vision tower" + (" and the projector" if len(trained) == 2 else "")
        yield ProposedChange(title, dict.fromkeys(trained, True), "tower", safe=False)


def _grows_with_pixels(run: Run) -> bool:
    """A tower that trains attends over an image's patches; one that does not holds them where they are more than the
    sequence has tokens: the rest is bounded by that."""
    length = run.sequence.length
    if not _sees(run) or not run.sequence.image_max_pixels or not isinstance(length, int):
        return False
    tower = next(tower for tower in run.model.architecture.towers if tower.kind == "vision")
    return not run.method.freeze_vision_tower or encoded_tokens(run, tower, length) > length


def _sees(run: Run) -> bool:
    return any(tower.kind == "vision" for tower in getattr(run.model.architecture, "towers", ()))


MOVES = (pixels, freeze)
