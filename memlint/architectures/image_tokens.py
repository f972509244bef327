"""How many tokens an image, a video or a sound takes in the language model's sequence, by family.

Each rule is the one of the family's processor in transformers 5.23; the arguments are pixels after LLaMA-Factory's
own resizing to `image_max_pixels` (data/mm_plugin.py:219), where it has one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from memlint._record import NamedTuple
from memlint.architectures.model import Architecture, Tower

# LLaVA-NeXT's and LLaVA-OneVision's image_grid_pinpoints in tiles, rows by columns, as their configurations list them.
_NEXT_GRIDS = ((1, 2), (2, 1), (2, 2), (3, 1), (1, 3))
_ONEVISION_GRIDS = tuple((rows, columns) for rows in range(1, 7) for columns in range(1, 7))
_ONEVISION_TILES = 9  # vision_aspect_ratio "anyres_max_9"
_PIXTRAL_EDGE = {"mistral3": 1540, "llava": 1024}  # the processors' longest_edge
_QWEN_MOST_PIXELS = 16384 * 28 * 28  # Qwen2-VL's processor; LLaMA-Factory's own bound is smaller
_QWEN_LEAST_PIXELS = 56 * 56


class ImageTokens(NamedTuple):
    """One image: `tokens` in the sequence, `patches` that the tower encodes."""

    tokens: int
    patches: int


Rule = Callable[[Tower, str, int, int], ImageTokens]


def of_image(architecture: Architecture, height: int, width: int) -> ImageTokens | None:
    """One image of `height` x `width` pixels; None for a family whose processor is not known here."""
    rule = _RULES.get(architecture.family)
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    if rule is None or tower is None or height < 1 or width < 1:
        return None
    return rule(tower, architecture.family, height, width)


def of_square(architecture: Architecture, pixels: int) -> ImageTokens | None:
    """A square image of about `pixels` pixels, after the resizing that keeps it below them."""
    side = math.isqrt(max(0, pixels))
    return of_image(architecture, side, side)


def of_video(architecture: Architecture, frames: int, pixels: int) -> ImageTokens | None:
    """`frames` square frames of `pixels` pixels each."""
    tower = next((tower for tower in architecture.towers if tower.kind == "vision"), None)
    frame = of_square(architecture, pixels)
    if tower is None or frame is None:
        return None
    steps = -(-frames // tower.temporal_patch_size)
    return ImageTokens(steps * frame.tokens, steps * frame.patches)


def resized(height: int, width: int, factor: int, least: int, most: int) -> tuple[int, int]:
    """Qwen2-VL's smart_resize: sides that `factor` divides, an area between `least` and `most` pixels."""
    high, wide = (max(factor, round(side / factor) * factor) for side in (height, width))
    if high * wide > most:
        scale = math.sqrt(height * width / most)
        high, wide = (max(factor, math.floor(side / scale / factor) * factor) for side in (height, width))
    elif high * wide < least:
        scale = math.sqrt(least / (height * width))
        high, wide = (math.ceil(side * scale / factor) * factor for side in (height, width))
    return high, wide


def _dynamic(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    factor = tower.patch_size * tower.merge_size
    high, wide = resized(height, width, factor, _QWEN_LEAST_PIXELS, _QWEN_MOST_PIXELS)
    tokens = (high // factor) * (wide // factor)
    return ImageTokens(tokens, tokens * tower.merge_size**2)


def _fixed(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    return ImageTokens(tower.tokens_per_image, (tower.image_size // tower.patch_size) ** 2 if tower.image_size else 0)


def _best_grid(grids: tuple[tuple[int, int], ...], tile: int, height: int, width: int) -> tuple[int, int]:
    """select_best_resolution: the grid that keeps most of the image's pixels, then wastes least."""

    def rank(grid: tuple[int, int]) -> tuple[int, int]:
        high, wide = grid[0] * tile, grid[1] * tile
        scale = min(wide / width, high / height)
        effective = min(int(width * scale) * int(height * scale), width * height)
        return (effective, effective - high * wide)

    return max(grids, key=rank)


def _unpadded(rows: int, columns: int, height: int, width: int) -> tuple[int, int]:
    """The rows and columns of features that hold the image and not its padding."""
    if width / height > columns / rows:
        kept = int(round(height * (columns / width), 7))
        return rows - (rows - kept) // 2 * 2, columns
    kept = int(round(width * (rows / height), 7))
    return rows, columns - (columns - kept) // 2 * 2


def _next(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    side = tower.image_size // tower.patch_size
    grid = _best_grid(_NEXT_GRIDS, tower.image_size, height, width)
    rows, columns = _unpadded(side * grid[0], side * grid[1], height, width)
    return ImageTokens(side**2 + rows * columns + rows, side**2 * (1 + grid[0] * grid[1]))


def _onevision(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    side = tower.image_size // tower.patch_size
    grid = _best_grid(_ONEVISION_GRIDS, tower.image_size, height, width)
    rows, columns = _unpadded(side * grid[0], side * grid[1], height, width)
    features, lines = rows * columns, rows
    ratio = math.sqrt(features / (_ONEVISION_TILES * side**2))
    if ratio > 1.1:
        features, lines = int(rows // ratio) * int(columns // ratio), int(rows // ratio)
    return ImageTokens(side**2 + features + lines, side**2 * (1 + grid[0] * grid[1]))


def _pixtral(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    """Rows of patches, each with a token at its end."""
    edge = _PIXTRAL_EDGE[family]
    ratio = max(height / edge, width / edge)
    if ratio > 1:
        height, width = math.floor(height / ratio), math.floor(width / ratio)
    patch = tower.patch_size * tower.merge_size
    rows, columns = (height - 1) // patch + 1, (width - 1) // patch + 1
    return ImageTokens(rows * (columns + 1), rows * columns * tower.merge_size**2)


def _llava(tower: Tower, family: str, height: int, width: int) -> ImageTokens:
    """LLaVA's own 24 x 24 patches; a Pixtral tower under the same name takes any size."""
    if tower.norm == "rms":
        return _pixtral(tower, family, height, width)
    return _fixed(tower, family, height, width)


_RULES: dict[str, Rule] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen2_5_omni", "qwen2_5_omni_thinker", "qwen3_vl"), _dynamic),
    **dict.fromkeys(("qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _dynamic),
    **dict.fromkeys(("gemma3", "shieldgemma2", "paligemma", "internvl"), _fixed),
    "llava": _llava,
    "llava_next": _next,
    "llava_next_video": _next,
    "llava_onevision": _onevision,
    "mistral3": _pixtral,
}
