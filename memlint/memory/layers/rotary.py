"""Rotary position embedding (transformers 5.23 models/llama/modeling_llama.py, apply_rotary_pos_emb)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.layers.kernel_config import LayerContext


def rotate(context: LayerContext, x: Value, fraction: float, in_fp32: bool = False) -> Value:
    """`x * cos + rotate_half(x) * sin`, over the first `fraction` of each head; Cohere does it in fp32."""
    tape = context.tape
    if context.kernels.liger:  # turned where it stands (liger_kernel 0.8.5 ops/rope.py, rope_forward)
        return tape.view(x)
    if context.family.rotary.as_complex:
        return _as_complex(context, x)
    if in_fp32:
        single = ops.cast(tape, x, ops.FP32_BYTES)
        turned = rotate(context, single, fraction)
        tape.drop(single)
        back = ops.cast(tape, turned, x.width)
        tape.drop(turned)
        return back
    if fraction >= 1:
        turned = _rotate_all(context, x)
        if not context.family.rotary.by_axis:
            return turned
        joined = ops.concat(tape, (turned,), x.extent)
        tape.drop(turned)
        return joined
    turned_extent, rest_extent = x.extent + ".rotary", x.extent + ".passed"
    turned, rest = ops.split(tape, x, (turned_extent, rest_extent))
    rotated = _rotate_all(context, turned)
    tape.drop(turned)
    found = ops.concat(tape, (rotated, rest), x.extent)
    tape.drop(rotated, rest)
    return found


def _as_complex(context: LayerContext, x: Value) -> Value:
    """`view_as_real(view_as_complex(x.float()) * freqs_ci).type_as(x)` (models/llama4/modeling_llama4.py:717)."""
    tape = context.tape
    single = ops.cast(tape, x, ops.FP32_BYTES)
    turned = ops.scale_by_constant(tape, single, Value.external("rope", ops.FP32_BYTES))
    tape.drop(single)
    found = ops.cast(tape, turned, x.width)
    tape.drop(turned)
    return found


def _rotate_all(context: LayerContext, x: Value) -> Value:
    tape, cos, sin = context.tape, context.cos, context.sin
    if context.family.rotary.fp32_tables:
        cos = sin = Value.external("rope", ops.FP32_BYTES)
    straight = ops.scale_by_constant(tape, x, cos)
    half = _rotate_half(tape, x)
    crossed = ops.scale_by_constant(tape, half, sin)
    tape.drop(half)
    added = ops.add(tape, straight, crossed)
    tape.drop(straight, crossed)
    if not context.family.rotary.casts_back:
        return added
    found = ops.cast(tape, added, x.width)
    tape.drop(added)
    return found


def _rotate_half(tape: Tape, x: Value) -> Value:
    extent = x.extent + "/2"
    first, second = ops.slice_of(tape, x, extent), ops.slice_of(tape, x, extent)
    turned = ops.scale(tape, second)
    found = ops.concat(tape, (turned, first), x.extent)
    tape.drop(first, second, turned)
    return found
