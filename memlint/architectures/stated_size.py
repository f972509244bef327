"""The least that a model has whose name states a size and nothing else that memlint knows: `my-merged-33B`.

Of the catalog's 1,095 ids that state a size, none has fewer than 0.85 of the parameters of the smallest size that it
states (InternVL2_5-4B: 3.40 billion), where `1_8B` is read as 1.8; a mixture of experts has more.
"""

from __future__ import annotations

import math
import re

from memlint.architectures import names
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, StoredWeights, TokenMixer, Weight
from memlint.architectures.placeholders import is_placeholder

LEAST = 0.85
_BILLION = 10**9
_LAYERS = 32
# A number before "B" may count what a model was trained with: "50B-tokens".
_SIZE = re.compile(r"(?<![a-z0-9.])(?:\d+x)?(?P<size>\d+(?:\.\d+)?)(?P<unit>[bm])(?![a-z0-9])")
_WHOLE_OF_DECIMAL = re.compile(r"(?:^|[^a-z0-9_]|(?<![0-9])_)(\d)_$")  # before "8B" of "1_8B"; not of "stage1_8B"
_SIZE_OF_DATA = re.compile(r"[bm][-_ ]?(?:tok|sample)")
_FEWEST = 0.01  # billions: "1M" is a number of tokens, that of a context
_UNMODELLED = "the layers of a model of which only the size is stated: they are not known"


def stated(name: str) -> str:
    """The smallest size that a model's name states, as the name has it ("33B"); "" where it states none."""
    found = _smallest(name)
    return "" if not found else f"{found:g}B" if found >= 1 else f"{found * 1000:g}M"


def architecture(name: str) -> Architecture | None:
    """A model with the fewest parameters that one of this name has: for its weights, never for its activations."""
    size = _smallest(name)
    return _of_parameters(int(LEAST * size * _BILLION), _stored(name)) if size else None


def _smallest(name: str) -> float:
    if is_placeholder(name):
        return 0
    for part in names.components(name):
        text = part.lower()
        found = [
            _billions(text, size) for size in _SIZE.finditer(text) if not _SIZE_OF_DATA.match(text, size.end() - 1)
        ]
        sizes = [size for size in found if size >= _FEWEST]
        if sizes:
            return min(sizes)
    return 0


def _billions(text: str, size: re.Match[str]) -> float:
    """The billions of parameters that a number before "B" or "M" states; with a digit and "_" before it, it is the
    decimals of one: "1_8B"."""
    whole = _WHOLE_OF_DECIMAL.search(text[: size.start()]) if size["size"].isdigit() else None
    number = float(f"{whole[1]}.{size['size']}" if whole else size["size"])
    return number / 1000 if size["unit"] == "m" else number


def _stored(name: str) -> StoredWeights:
    """How such a checkpoint's weights are stored, by the suffixes of its name."""
    found = (names.unquantized(part) for part in names.components(name))
    return next((one[1] for one in found if one), StoredWeights())


def _of_parameters(count: int, stored: StoredWeights) -> Architecture:
    """Equal layers of linear weights alone with at most so many parameters: 4 h^2 of attention, 12 h^2 of the MLP."""
    width = math.isqrt(count // (16 * _LAYERS))
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    weights = (
        *(Weight(f"self_attn.{one}.weight", (width, width), "linear") for one in attention),
        *(Weight(f"mlp.{one}.weight", (4 * width, width), "linear") for one in ("gate_proj", "up_proj")),
        Weight("mlp.down_proj.weight", (width, 4 * width), "linear"),
    )
    mixer = TokenMixer(heads=1, kv_heads=1, head_dim=width)
    layer = DecoderLayer(mixer, Mlp(intermediate_size=4 * width), weights=weights)
    kinds = (0,) * _LAYERS
    return Architecture("", "", width, 0, (layer,), kinds, (), stored=stored, unmodelled=_UNMODELLED)
