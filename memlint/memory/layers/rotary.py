"""Rotary position embedding (transformers 5.23 models/llama/modeling_llama.py, apply_rotary_pos_emb)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.layers.kernel_config import LayerContext


def rotate(context: LayerContext, x: Value, fraction: float, in_fp32: bool = False) -> Value:
    """`x * cos + rotate_half(x) * sin`, over the first `fraction` of each head. `in_fp32`: Cohere upcasts."""
    tape = context.tape
    if context.kernels.liger:  # rotated in place (liger_kernel 0.8.5 ops/rope.py, rope_forward)
        return tape.view(x)
    if context.family.rotary.as_complex:
        return _as_complex(context, x)
    if in_fp32:
        upcast = ops.cast(tape, x, ops.FP32_BYTES)
        rotated = rotate(context, upcast, fraction)
        tape.drop(upcast)
        found = ops.cast(tape, rotated, x.width)
        tape.drop(rotated)
        return found
    if fraction >= 1:
        rotated = _rotate_all(context, x)
        if not context.family.rotary.by_axis:
            return rotated
        both_axes = ops.concat(tape, (rotated,), x.extent)
        tape.drop(rotated)
        return both_axes
    rotary_extent, unrotated_extent = x.extent + ".rotary", x.extent + ".passed"
    to_rotate, unrotated = ops.split(tape, x, (rotary_extent, unrotated_extent))
    rotated = _rotate_all(context, to_rotate)
    tape.drop(to_rotate)
    found = ops.concat(tape, (rotated, unrotated), x.extent)
    tape.drop(rotated, unrotated)
    return found


def _as_complex(context: LayerContext, x: Value) -> Value:
    """`view_as_real(view_as_complex(x.float()) * freqs_ci).type_as(x)` (models/llama4/modeling_llama4.py:717)."""
    tape = context.tape
    in_fp32 = ops.cast(tape, x, ops.FP32_BYTES)
    rotated = ops.scale_by_constant(tape, in_fp32, Value.external("rope", ops.FP32_BYTES))
    tape.drop(in_fp32)
    found = ops.cast(tape, rotated, x.width)
    tape.drop(rotated)
    return found


def _rotate_all(context: LayerContext, x: Value) -> Value:
    tape, cos, sin = context.tape, context.cos, context.sin
    if context.family.rotary.fp32_tables:
        cos = sin = Value.external("rope", ops.FP32_BYTES)
    times_cos = ops.scale_by_constant(tape, x, cos)
    half = _rotate_half(tape, x)
    times_sin = ops.scale_by_constant(tape, half, sin)
    tape.drop(half)
    added = ops.add(tape, times_cos, times_sin)
    tape.drop(times_cos, times_sin)
    if not context.family.rotary.casts_back:
        return added
    found = ops.cast(tape, added, x.width)
    tape.drop(added)
    return found


def _rotate_half(tape: Tape, x: Value) -> Value:
    extent = x.extent + "/2"
    first, second = ops.slice_of(tape, x, extent), ops.slice_of(tape, x, extent)
    negated = ops.scale(tape, second)
    found = ops.concat(tape, (negated, first), x.extent)
    tape.drop(first, second, negated)
    return found
