"""From pixels to the first layer of a vision tower: a convolution per patch, positions, a norm.

Sources are the towers' own files in transformers 5.23 (models/{clip,gemma4,glm4v,idefics3,internvl,llama4,
pixtral,qwen2_vl,qwen2_5_vl,qwen3_vl,siglip}/modeling_*.py).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint._record import NamedTuple
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.profile import Profile, finish_profile
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import Linear


class TowerEntry(NamedTuple):
    """The operations before the layers of a tower. `norm_kind`: "", layer or rms."""

    convolution: Linear
    class_token: Parameter | None = None  # a token of its own before each image's patches
    positions: Parameter | None = None
    interpolated: bool = False  # four positions looked up for each patch and weighted (Qwen3-VL)
    sampled: bool = False  # positions are sampled from the table in fp32 (GLM-4V)
    norm_kind: str = ""
    norm: Parameter | None = None
    norm_first: bool = False  # before the positions (GLM-4V)
    joined: bool = False  # images of all sizes are cut and joined (Pixtral)
    reordered: bool = False  # patches are sorted by window (Qwen2.5-VL)
    output_requires_grad: bool = False  # the convolution's output is made to require a gradient, whatever trains
    after_positions: bool = False  # with the former: the sum with the positions is, instead (Idefics 3)
    by_patch: bool = False  # positions are looked up for each patch of each image (Idefics 3)
    by_axis: bool = False  # pixels are moved to -1 .. 1, positions looked up for row and column (Gemma 4)
    unfolded: bool = False  # pixels are brought side by side before the product (Llama 4)
    drops_padding: bool = False  # pixels of real images are copied out of a padded batch (Idefics 3)


@lru_cache(maxsize=64)
def entry_profile(entry: TowerEntry, kernels: KernelConfig) -> tuple[Profile, int]:
    """The profile, and the bytes of one element of the layers' residual stream."""
    tape = kernels.tape()
    x = _convolved(tape, entry, kernels)
    if entry.joined:
        x = ops.replace(tape, x, ops.copy(tape, x))
    if entry.norm_first:
        x = _normed(tape, entry, kernels, x)
    if entry.class_token is not None:
        x = _with_class_token(tape, x, entry.class_token)
    if entry.interpolated and entry.positions is not None:
        x = ops.replace(tape, x, _with_interpolated_positions(tape, x, entry.positions))
    elif entry.positions is not None:
        x = ops.replace(tape, x, _position_sum(entry)(tape, x, entry.positions))
    if entry.reordered:
        x = ops.replace(tape, x, ops.scale(tape, x))  # `x[index]`: its gradient is written into zeros
    if not entry.norm_first:
        x = _normed(tape, entry, kernels, x)
    if entry.output_requires_grad and entry.after_positions:
        _require_grad(x)
    return finish_profile(tape, x), x.width


def _position_sum(entry: TowerEntry) -> Callable[[Tape, Value, Parameter], Value]:
    if entry.by_axis:
        return _with_axis_positions
    return _with_indexed_positions if entry.by_patch else _with_sampled_positions if entry.sampled else _with_positions


def _normed(tape: Tape, entry: TowerEntry, kernels: KernelConfig, x: Value) -> Value:
    if entry.norm_kind == "layer":
        return ops.replace(tape, x, norm.layer(tape, x, entry.norm, "rows", kernels.autocast_width))
    return ops.replace(tape, x, norm.rms(tape, x, entry.norm, "rows")) if entry.norm_kind else x


def _convolved(tape: Tape, entry: TowerEntry, kernels: KernelConfig) -> Value:
    """`patch_embedding(pixel_values.to(weight.dtype))`: each patch is one row of a product. Pixels arrive in fp32 and
    are counted with the step's inputs."""
    no_rotary = Value.external("rope", FP32_BYTES)
    context = LayerContext(tape, kernels, {"patches": entry.convolution}, no_rotary, no_rotary)
    weight = entry.convolution.weight
    if entry.unfolded:  # without autocast the model refuses pixels of another dtype than its own
        pixels = ops.copy(
            tape, Value.external("pixels", FP32_BYTES if kernels.autocast_width else weight.width or FP32_BYTES)
        )
    else:
        pixels = Value.external("pixels", FP32_BYTES)
        for _ in range(2 * entry.by_axis):  # `2 * (pixel_values - 0.5)`
            pixels = ops.replace(tape, pixels, ops.copy(tape, pixels))
        pixels = ops.replace(tape, pixels, ops.cast(tape, pixels, weight.width or FP32_BYTES))
    if entry.drops_padding:
        pixels = ops.replace(tape, pixels, ops.copy(tape, pixels))
    x = project(context, "patches", pixels, "patches")
    tape.drop(pixels)
    if weight.trainable and kernels.autocast_width not in (0, weight.width):
        tape.cached_cast(
            weight, kernels.autocast_width
        ).references += 1  # a convolution's backward reads its weight in any case
    if entry.output_requires_grad and not entry.after_positions:
        _require_grad(x)
    return x


def _require_grad(x: Value) -> None:
    if not x.requires_grad:
        x.requires_grad = True
        x.storage.references += 1  # it is a leaf now: the graph holds it until its gradient is there


def _with_class_token(tape: Tape, x: Value, token: Parameter) -> Value:
    """`cat((class_embeds, x), dim=1)` in the wider dtype (models/clip/modeling_clip.py:198)."""
    wide = ops.cast(tape, x, max(x.width, token.width))
    found = ops.concat(tape, (wide,), "hidden")
    tape.drop(x, wide)
    return _with_trained_row(tape, found, token)


def _with_positions(tape: Tape, x: Value, positions: Parameter) -> Value:
    """`x + position_embedding(position_ids)`: one row for each place of an image, shared by all images."""
    wide = max(x.width, positions.width)
    found = tape.new("hidden", wide)
    tape.node((found,), (x,), aliases=True)
    return _with_trained_row(tape, found, positions)


def _with_indexed_positions(tape: Tape, x: Value, positions: Parameter) -> Value:
    """`x + position_embedding(position_ids)` with ids of each patch (models/idefics3/modeling_idefics3.py:148)."""
    rows = _with_trained_row(tape, tape.new("hidden", positions.width), positions)
    found = ops.add(tape, x, rows)
    tape.drop(rows)
    return found


def _with_axis_positions(tape: Tape, x: Value, positions: Parameter) -> Value:
    """`x + where(padding, 0, table[0][rows] + table[1][columns])` (models/gemma4/modeling_gemma4.py:596). A lookup's
    gradient is a table of its own beside the whole one that it is put into."""
    axes = [tape.new("hidden", positions.width) for _ in range(2)]
    if positions.trainable:
        gradient = (ParameterGradient(positions.extent, positions.width, positions.width),)
        tape.node(tuple(axes), (), (), ((positions.extent, positions.width),) * 2, weights=gradient)
    both_axes = ops.add(tape, *axes)
    masked = ops.scale(tape, both_axes)
    tape.drop(both_axes, *axes)
    found = ops.add(tape, x, masked)
    tape.drop(masked)
    return found


def _with_sampled_positions(tape: Tape, x: Value, positions: Parameter) -> Value:
    """`x + grid_sample(table.float(), grid).to(table.dtype)` (models/glm4v/modeling_glm4v.py:223-264)."""
    table = tape.cached_cast(positions, FP32_BYTES) if positions.width != FP32_BYTES else None
    sampled = tape.new("hidden", FP32_BYTES)
    kept = (table,) if table is not None else ()
    if positions.trainable:
        gradient = (ParameterGradient(positions.extent, FP32_BYTES, positions.width),)
        tape.node((sampled,), (), kept, weights=gradient)
    if table is not None and not positions.trainable:
        tape.release(table)
    rows = ops.cast(tape, sampled, positions.width)
    tape.drop(sampled)
    found = ops.add(tape, x, rows)
    tape.drop(rows)
    return found


def _with_trained_row(tape: Tape, x: Value, weight: Parameter) -> Value:
    """A row that is added or joined to each image: its gradient is a sum over images."""
    if weight.trainable:
        tape.node((x,), (), weights=(ParameterGradient(weight.extent, weight.width, weight.width),))
    return x


def _with_interpolated_positions(tape: Tape, x: Value, positions: Parameter) -> Value:
    """`x + (pos_embed(indices) * weights[:, :, None]).sum(1).to(x.dtype)` (models/qwen3_vl/modeling_qwen3_vl.py:690);
    the weights are fp32."""
    looked_up = tape.new("hidden*4", positions.width)
    _with_trained_row(tape, looked_up, positions)
    weighted = tape.new("hidden*4", FP32_BYTES)
    tape.node((weighted,), (looked_up,), gradient_width=FP32_BYTES)
    tape.drop(looked_up)
    summed = tape.new("hidden", FP32_BYTES)
    tape.node((summed,), (weighted,), aliases=True)
    tape.drop(weighted)
    cast = ops.cast(tape, summed, x.width)
    found = ops.add(tape, x, cast)
    tape.drop(summed, cast)
    return found
