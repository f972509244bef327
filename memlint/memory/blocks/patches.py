"""From pixels to the first layer of a vision tower: a convolution per patch, positions, a norm.

Sources are the towers' own files in transformers 5.23 (models/{clip,siglip,internvl,pixtral,qwen2_vl,qwen2_5_vl,
qwen3_vl}/modeling_*.py).
"""

from __future__ import annotations

from functools import lru_cache

import memlint.memory.blocks.norm as norm
import memlint.memory.ops as ops
from memlint._record import NamedTuple
from memlint.memory.blocks.projection import project
from memlint.memory.blocks.regime import Context, Regime
from memlint.memory.ops import SINGLE
from memlint.memory.profile import Profile, finish
from memlint.memory.roles import Linear
from memlint.memory.tape import Tape, Value, Weight, WeightGradient


class Entry(NamedTuple):
    """What stands before the layers. `norm_kind`: "", layer or rms."""

    convolution: Linear
    class_token: Weight | None = None  # a token of its own before each image's patches
    positions: Weight | None = None
    interpolated: bool = False  # four positions looked up for each patch and weighted (Qwen3-VL)
    norm_kind: str = ""
    norm: Weight | None = None
    gathered: bool = False  # images of all sizes are cut and joined (Pixtral)
    reordered: bool = False  # patches are sorted by window (Qwen2.5-VL)
    asks: bool = False  # the convolution's result asks for a gradient, whatever trains


@lru_cache(maxsize=64)
def entry_profile(entry: Entry, regime: Regime) -> tuple[Profile, int]:
    """The profile, and the bytes of one element of the layers' residual stream."""
    tape = Tape(True, in_place=regime.in_kernels)
    x = _convolved(tape, entry, regime)
    if entry.gathered:
        x = _taken(tape, x, ops.copy(tape, x))
    if entry.class_token is not None:
        x = _with_class_token(tape, x, entry.class_token)
    if entry.interpolated and entry.positions is not None:
        x = _taken(tape, x, _interpolated(tape, x, entry.positions))
    elif entry.positions is not None:
        x = _taken(tape, x, _with_positions(tape, x, entry.positions))
    if entry.reordered:
        x = _taken(tape, x, ops.scale(tape, x))  # `x[index]`: its gradient is written into zeros
    if entry.norm_kind == "layer":
        x = _taken(tape, x, norm.layer(tape, x, entry.norm, "rows", regime.half))
    elif entry.norm_kind:
        x = _taken(tape, x, norm.rms(tape, x, entry.norm, "rows"))
    return finish(tape, x), x.width


def _convolved(tape: Tape, entry: Entry, regime: Regime) -> Value:
    """`patch_embedding(pixel_values.to(weight.dtype))`: each patch is one row of a product. Pixels arrive in fp32 and
    are counted with the step's inputs."""
    nowhere = Value.outside("rope", SINGLE)
    context = Context(tape, regime, {"patches": entry.convolution}, nowhere, nowhere)
    weight = entry.convolution.weight
    pixels = ops.cast(tape, Value.outside("pixels", SINGLE), weight.width or SINGLE)
    x = project(context, "patches", pixels, "patches")
    tape.drop(pixels)
    if weight.trains and regime.half not in (0, weight.width):
        tape.cached_cast(weight, regime.half).holders += 1  # a convolution's backward reads its weight in any case
    if entry.asks and not x.requires_grad:
        x.requires_grad = True
        x.storage.holders += 1  # it is a leaf now: the graph holds it until its gradient is there
    return x


def _with_class_token(tape: Tape, x: Value, token: Weight) -> Value:
    """`cat((class_embeds, x), dim=1)` in the wider dtype (models/clip/modeling_clip.py:198)."""
    wide = ops.cast(tape, x, max(x.width, token.width))
    found = ops.join(tape, (wide,), "hidden")
    tape.drop(x, wide)
    return _trained(tape, found, token)


def _with_positions(tape: Tape, x: Value, positions: Weight) -> Value:
    """`x + position_embedding(position_ids)`: one row for each place of an image, shared by all images."""
    wide = max(x.width, positions.width)
    found = tape.new("hidden", wide)
    tape.node((found,), (x,), aliases=True)
    return _trained(tape, found, positions)


def _trained(tape: Tape, x: Value, weight: Weight) -> Value:
    """A row that is added or joined to each image: its gradient is a sum over images."""
    if weight.trains:
        tape.node((x,), (), weights=(WeightGradient(weight.extent, weight.width, weight.width),))
    return x


def _interpolated(tape: Tape, x: Value, positions: Weight) -> Value:
    """`x + (pos_embed(indices) * weights[:, :, None]).sum(1).to(x.dtype)` (models/qwen3_vl/modeling_qwen3_vl.py:690);
    the weights are fp32."""
    looked_up = tape.new("hidden*4", positions.width)
    _trained(tape, looked_up, positions)
    weighted = tape.new("hidden*4", SINGLE)
    tape.node((weighted,), (looked_up,), computed=SINGLE)
    tape.drop(looked_up)
    summed = tape.new("hidden", SINGLE)
    tape.node((summed,), (weighted,), aliases=True)
    tape.drop(weighted)
    cast = ops.cast(tape, summed, x.width)
    found = ops.add(tape, x, cast)
    tape.drop(summed, cast)
    return found


def _taken(tape: Tape, old: Value, new: Value) -> Value:
    tape.drop(old)
    return new
