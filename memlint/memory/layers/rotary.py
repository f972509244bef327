"""Rotary position embedding (transformers 5.23 models/llama/modeling_llama.py, apply_rotary_pos_emb)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.layers.kernel_config import LayerContext


def rotate(context: LayerContext, fraction: float, *heads: Value) -> tuple[Value, ...]:
    """`x * cos + rotate_half(x) * sin` of each of `heads` (queries and keys), over the first `fraction` of a head.

    One call of `apply_rotary_pos_emb`: its caller holds all of `heads` until all are rotated, and its own variables
    what they became in fp32. Drops `heads`.
    """
    tape, traits = context.tape, context.family.rotary
    if context.kernels.liger:  # rotated in place (liger_kernel 0.8.5 ops/rope.py, rope_forward)
        return heads
    in_fp32 = traits.in_fp32 or traits.as_complex
    operands = [ops.cast(tape, x, ops.FP32_BYTES if in_fp32 else x.width) for x in heads]
    tables = _tables(context)
    rotated = [_rotate_part(context, x, fraction, tables) for x in operands]
    casts_back = in_fp32 or traits.casts_back or traits.factors_in_fp32
    found = [ops.cast(tape, new, x.width if casts_back else new.width) for new, x in zip(rotated, heads)]
    tape.drop(*rotated, *operands, *heads, *tables)
    return tuple(found)


def _tables(context: LayerContext) -> tuple[Value, Value]:
    """Cosine and sine: those that all layers share, or the layer's own in fp32, spread over pairs or cast."""
    traits = context.family.rotary
    if traits.casts_tables and context.cos.width != ops.FP32_BYTES:
        return context.tape.new("rotary_rows", ops.FP32_BYTES), context.tape.new("rotary_rows", ops.FP32_BYTES)
    if traits.spreads_tables:
        return context.tape.new("rotary_table", ops.FP32_BYTES), context.tape.new("rotary_table", ops.FP32_BYTES)
    in_fp32 = traits.fp32_tables or traits.as_complex or traits.factors_in_fp32
    width = ops.FP32_BYTES if in_fp32 else context.cos.width
    return Value.external("rope", width), Value.external("rope", width)


def _rotate_part(context: LayerContext, x: Value, fraction: float, tables: tuple[Value, Value]) -> Value:
    tape, traits = context.tape, context.family.rotary
    if traits.as_complex:  # one product of complex numbers (models/llama4/modeling_llama4.py:717)
        return ops.scale_by_constant(tape, x, tables[0])
    if fraction >= 1:
        rotated = _rotate_all(context, x, tables)
        if not traits.by_axis:
            return rotated
        both_axes = ops.concat(tape, (rotated,), x.extent)
        tape.drop(rotated)
        return both_axes
    rotary_extent, unrotated_extent = x.extent + ".rotary", x.extent + ".passed"
    to_rotate, unrotated = ops.split(tape, x, (rotary_extent, unrotated_extent))
    rotated = _rotate_all(context, to_rotate, tables)
    tape.drop(to_rotate)
    found = ops.concat(tape, (rotated, unrotated), x.extent)
    tape.drop(rotated, unrotated)
    return found


def _rotate_all(context: LayerContext, x: Value, tables: tuple[Value, Value]) -> Value:
    tape, (cos, sin) = context.tape, tables
    width = ops.FP32_BYTES if context.family.rotary.factors_in_fp32 else x.width
    operand = ops.cast(tape, x, width)
    times_cos = ops.scale_by_constant(tape, operand, cos)
    tape.drop(operand)
    half = _rotate_half(tape, x)
    operand = ops.cast(tape, half, width)
    tape.drop(half)
    times_sin = ops.scale_by_constant(tape, operand, sin)
    tape.drop(operand)
    found = ops.add(tape, times_cos, times_sin)
    tape.drop(times_cos, times_sin)
    return found


def _rotate_half(tape: Tape, x: Value) -> Value:
    extent = x.extent + "/2"
    first, second = ops.slice_of(tape, x, extent), ops.slice_of(tape, x, extent)
    negated = ops.scale(tape, second)
    found = ops.concat(tape, (negated, first), x.extent)
    tape.drop(first, second, negated)
    return found
