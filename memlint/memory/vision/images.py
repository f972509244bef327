"""What images add at most to a step of an image-text model whose tower is frozen, in bytes, patches and tokens.

A config does not say how many images a sample has. The length of the sequence bounds them (LLaMA-Factory and TRL
truncate to it): at most, every token belongs to an image. Simulated beside real inputs by
benchmarks/referee/vision_steps.py.
"""

from __future__ import annotations

import math

import memlint.architectures.image_tokens as image_tokens
import memlint.memory.families.lookup as families
from memlint.architectures.model import Architecture, Tower
from memlint.memory.segments.step import sequences_per_sample
from memlint.memory.state.parameters import required
from memlint.run import Run

PIXEL = 4  # processors give float32 pixels
_HALF = 2
_FILLED_IN_ELSEWHERE = "the value is filled in elsewhere: how many patches an image has cannot be counted"


def max_image_bytes(run: Run) -> int:
    """Bytes that a step needs on top of the text model's when every token belongs to an image; 0 without an image
    tower."""
    architecture: Architecture = run.model.architecture
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    length, micro = run.sequence.length, run.batch.micro_batch_size
    if tower is None or not isinstance(length, int) or not isinstance(micro, int):
        return 0
    tokens = encoded_tokens(run, tower, length) * micro * sequences_per_sample(run)
    patches = patches_of(tower, tokens, families.of(architecture).vision.patches_per_token)
    scattered = tokens * architecture.hidden_size * _HALF  # embeddings with the features put in
    return patches * pixels_per_patch(tower) * PIXEL + scattered + _kept_by_grad_hook(run, tower, patches)


def _kept_by_grad_hook(run: Run, tower: Tower, patches: int) -> int:
    """Bytes of layer inputs that a frozen tower keeps under checkpointing: transformers 5.23 makes the output of the
    patch embedding require a gradient (modeling_utils.py:2150)."""
    if run.checkpointing.mode in ("none", "selective") or run.checkpointing.skips_frozen_layers:
        return 0
    other_tensors = 6  # patch embedding, positions, the last norm in fp32, the projector's input in fp32
    return patches * tower.hidden_size * _HALF * (tower.layers + other_tensors)


def patches_of(tower: Tower, tokens: int, repeated: float = 1) -> int:
    """The most patches that `tokens` tokens of the sequence stand for. `repeated`: how often the tower encodes them."""
    tokens = math.ceil(tokens * repeated)
    if tower.tokens_per_image and tower.image_size:
        return tokens * (tower.image_size // tower.patch_size) ** 2 // tower.tokens_per_image
    return tokens * tower.merge_size**2


def encoded_tokens(run: Run, tower: Tower, length: int) -> int:
    """The most tokens that a tower encodes for a sequence of `length` tokens, or those of a known number of images.

    Where images are scaled to a number of pixels, tokens are truncated and pixels are not: an image of more tokens than
    the sequence is encoded before the model finds too few places for it. Who filters or refuses prompts by their
    tokens, images' included, never gets there.
    """
    if isinstance(run.sequence.images, int):
        return run.sequence.images * tokens_of_image(run, tower, length)
    if _prompt_of_images(run) or tower.tokens_per_image:
        return _room_of_images(run, length)
    return max(length, _image_pixels(run) // (tower.patch_size * tower.merge_size) ** 2)


def _prompt_of_images(run: Run) -> int:
    """The tokens of the longest prompt where images stand in prompts alone; 0 where they may stand anywhere."""
    prompt = run.sequence.max_prompt_length
    return prompt if run.sequence.images_in_prompts and isinstance(prompt, int) else 0


def _room_of_images(run: Run, length: int) -> int:
    """The tokens that images may fill of a sequence of `length` tokens."""
    return min(length, _prompt_of_images(run) or length)


def tokens_of_image(run: Run, tower: Tower, length: int) -> int:
    """Tokens of one image: of a square one with as many pixels as it may keep, at most a whole sequence of `length`
    tokens where nothing scales it."""
    if tower.tokens_per_image:
        return tower.tokens_per_image
    most = _room_of_images(run, length)
    pixels = _image_pixels(run)
    found = image_tokens.of_square(run.model.architecture, pixels) if pixels else None
    side = tower.patch_size * tower.merge_size
    tokens = found.tokens if found is not None else pixels // side**2 or most
    return min(tokens, most) if _prompt_of_images(run) else tokens


def _image_pixels(run: Run) -> int:
    """Pixels that an image is scaled down to; 0 where it is not scaled."""
    return required(run.sequence.image_max_pixels, "sequence.image_max_pixels", _FILLED_IN_ELSEWHERE)


def _video_pixels(run: Run) -> int:
    """Pixels that a video's frame is scaled down to; 0 where it is not scaled."""
    return required(run.sequence.video_max_pixels, "sequence.video_max_pixels", _FILLED_IN_ELSEWHERE)


def class_tokens(tower: Tower, patches: int) -> int:
    """Class tokens that a tower of fixed resolution adds to its patches: one for each image, or 0."""
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
    limit = _room_of_images(run, length) * tower.merge_size**2
    if not _image_pixels(run):
        return limit
    pixels = max(_image_pixels(run), _video_pixels(run))
    half = tower.patch_size * tower.merge_size / 2
    sides = (200**0.5 + 200**-0.5) * pixels**0.5
    return min(limit, int(pixels + half * sides + half * half) // tower.patch_size**2)


def pixels_per_patch(tower: Tower) -> int:
    return 3 * tower.temporal_patch_size * tower.patch_size**2
