"""What images add to a step of an image-text model whose tower is frozen, at most.

Nobody can read from a config how many images a sample has; the sequence's bound holds whatever their number
(LLaMA-Factory and TRL cut at it), so at most every token is an image's. Simulated beside real inputs by
benchmarks/referee/vision_steps.py.
"""

from __future__ import annotations

import math

import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, Tower
from memlint.memory.parameters import required
from memlint.memory.step import sequences_per_sample
from memlint.run import Run

PIXEL = 4  # processors give float32 pixels
_HALF = 2
_FILLED_IN_ELSEWHERE = "the value is filled in elsewhere: how many patches an image has cannot be counted"


def most_bytes(run: Run) -> int:
    """Bytes that a step holds beside the text model's when all tokens are images'; 0 where there is no image tower."""
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    length, micro = run.sequence.length, run.batch.micro_batch_size
    if tower is None or not isinstance(length, int) or not isinstance(micro, int):
        return 0
    tokens = tokens_seen(run, tower, length) * micro * sequences_per_sample(run)
    patches = patches_of(tower, tokens, families.of(architecture).vision.patches_per_token)
    scattered = tokens * architecture.hidden_size * _HALF  # embeddings with the features put in
    return patches * pixels_per_patch(tower) * PIXEL + scattered + _kept_by_the_hook(run, tower, patches)


def _kept_by_the_hook(run: Run, tower: Tower, patches: int) -> int:
    """Inputs that a frozen tower's layers keep under checkpointing: transformers 5.23 makes the output of the patch
    embedding ask for a gradient (modeling_utils.py:2150)."""
    if run.checkpointing.mode in ("none", "selective") or run.checkpointing.skips_frozen_layers:
        return 0
    around = 6  # patch embedding, positions, the last norm in fp32, the projector's input in fp32
    return patches * tower.hidden_size * _HALF * (tower.layers + around)


def patches_of(tower: Tower, tokens: int, repeated: float = 1) -> int:
    """Patches of the tower behind so many tokens of the sequence, at most. `repeated`: how often they go through it."""
    tokens = math.ceil(tokens * repeated)
    if tower.tokens_per_image and tower.image_size:
        return tokens * (tower.image_size // tower.patch_size) ** 2 // tower.tokens_per_image
    return tokens * tower.merge_size**2


def tokens_seen(run: Run, tower: Tower, length: int) -> int:
    """Tokens that go through a tower for each sequence of `length` tokens, at most.

    Where images are scaled to a number of pixels, tokens are cut and pixels are not: an image of more tokens than the
    sequence goes through the tower before the model misses its places.
    """
    if tower.tokens_per_image:
        return length
    return max(length, _image_pixels(run) // (tower.patch_size * tower.merge_size) ** 2)


def _image_pixels(run: Run) -> int:
    """Pixels that an image is scaled down to; 0 where it is not scaled."""
    return required(run.sequence.image_max_pixels, "sequence.image_max_pixels", _FILLED_IN_ELSEWHERE)


def _video_pixels(run: Run) -> int:
    """Pixels that a video's frame is scaled down to; 0 where it is not scaled."""
    return required(run.sequence.video_max_pixels, "sequence.video_max_pixels", _FILLED_IN_ELSEWHERE)


def class_tokens(tower: Tower, patches: int) -> int:
    """Tokens that a tower of fixed resolution adds to its patches, one an image."""
    own = any(weight.kind == "embedding" and not weight.name.endswith("mask_token") for weight in tower.weights)
    return patches // (tower.image_size // tower.patch_size) ** 2 if own and tower.image_size else 0


def patches_of_image(run: Run, tower: Tower, length: int) -> int:
    """Patches of one image, at most: it fills a sequence of `length` tokens, or has the pixels that it is scaled to,
    each side rounded to whole merged patches and no side 200 times the other (transformers 5.23
    models/qwen2_vl/image_processing_qwen2_vl.py, smart_resize)."""
    if tower.tokens_per_image and tower.image_size:
        patches: int = (tower.image_size // tower.patch_size) ** 2
        return patches + class_tokens(tower, patches)
    if tower.tokens_per_image:  # padded to the largest image
        return int(tower.tokens_per_image * tower.merge_size**2)
    most = length * tower.merge_size**2
    if not _image_pixels(run):
        return most
    pixels = max(_image_pixels(run), _video_pixels(run))
    half = tower.patch_size * tower.merge_size / 2
    sides = (200**0.5 + 200**-0.5) * pixels**0.5
    return min(most, int(pixels + half * sides + half * half) // tower.patch_size**2)


def pixels_per_patch(tower: Tower) -> int:
    return 3 * tower.temporal_patch_size * tower.patch_size**2
