"""Normalisation layers.

RMSNorm as transformers 5.23 writes it (models/llama/modeling_llama.py, LlamaRMSNorm): the input is upcast
to fp32, and that copy and the reciprocal root are what backward reads.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value


def rms(
    tape: Tape, x: Value, weight: Parameter | None, rows: str, gemma: bool = False, multiplies_input: bool = False
) -> Value:
    """`weight * (x / rms(x))`; Gemma multiplies (1 + weight) in fp32 before it casts back. `multiplies_input`: T5 takes
    the mean of an fp32 copy, and multiplies `x` itself (transformers 5.23 models/t5/modeling_t5.py, T5LayerNorm)."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    root = reciprocal_root(tape, in_fp32, rows)
    normed = ops.multiply(tape, x if multiplies_input else in_fp32, root)
    tape.drop(in_fp32, root)
    if gemma:
        return _scale_then_cast(tape, normed, weight, x.width)
    in_dtype = ops.cast(tape, normed, x.width)
    tape.drop(normed)
    if weight is None:
        return in_dtype
    found = ops.scale_by_weight(tape, weight, in_dtype)
    tape.drop(in_dtype)
    return found


def liger_rms(tape: Tape, x: Value, weight: Parameter | None, rows: str, in_place: bool = True) -> Value:
    """Liger's kernel: saves its input and one fp32 number per row. The gradient is written over the incoming one,
    except in families whose norms read a residual (liger_kernel 0.8.5 ops/rms_norm.py:218-255, :353)."""
    found = tape.new(x.extent, x.width)
    root = tape.new(rows, FP32_BYTES)
    trains = weight is not None and weight.trainable
    gradient = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight is not None and trains else ()
    tape.node((found,), (x,), (x, root), weights=gradient, aliases=in_place, over_incoming=True)
    tape.drop(root)
    return found


def reciprocal_root(tape: Tape, x: Value, rows: str, squares: int = 2) -> Value:
    """`rsqrt(mean(x ** 2) + eps)`: one fp32 number per row. `squares`: full tensors in the backward of the square."""
    square = tape.new(x.extent, FP32_BYTES)
    tape.node((square,), (x,), (x,), ((x.extent, FP32_BYTES),) * squares)  # pow, then times 2
    mean = tape.new(rows, FP32_BYTES)
    tape.node((mean,), (square,))
    tape.drop(square)
    shifted = ops.add(tape, mean, mean)
    tape.drop(mean)
    root = ops.unary_by_result(tape, shifted)
    tape.drop(shifted)
    return root


def _scale_then_cast(tape: Tape, normed: Value, weight: Parameter | None, width: int) -> Value:
    """`(weight * normed).to(dtype)`, the product in fp32. `width`: bytes of an element of the dtype. Drops `normed`."""
    scaled = ops.scale_by_weight(tape, weight._replace(width=FP32_BYTES), normed) if weight else ops.scale(tape, normed)
    tape.drop(normed)
    found = ops.cast(tape, scaled, width)
    tape.drop(scaled)
    return found


def layer(
    tape: Tape, x: Value, weight: Parameter | None, rows: str, autocast_width: int, in_autocast_dtype: bool = False
) -> Value:
    """`layer_norm`: saves its input, mean and deviation. Under CUDA autocast it runs in fp32 and returns fp32, unless
    the family casts its input to autocast's dtype first."""
    width = autocast_width if in_autocast_dtype else FP32_BYTES
    operand = ops.cast(tape, x, width if autocast_width else x.width)
    found = tape.new(x.extent, operand.width)
    mean, deviation = tape.new(rows, FP32_BYTES), tape.new(rows, FP32_BYTES)
    trains = weight is not None and weight.trainable
    gradient = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight is not None and trains else ()
    tape.node((found,), (operand,), (operand, mean, deviation), weights=gradient)
    tape.drop(mean, deviation, operand)
    return found


def layer_no_affine(tape: Tape, x: Value, rows: str, autocast_width: int) -> Value:
    """`layer_norm(x.float()).to(x.dtype)` without weights (transformers 5.23 models/olmo/modeling_olmo.py)."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    normed = layer(tape, in_fp32, None, rows, autocast_width)
    tape.drop(in_fp32)
    found = ops.cast(tape, normed, x.width)
    tape.drop(normed)
    return found


def centred(tape: Tape, x: Value, weight: Parameter | None, rows: str) -> Value:
    """LayerNorm written out in fp32 (transformers 5.23 models/cohere/modeling_cohere.py, CohereLayerNorm)."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    mean = tape.new(rows, FP32_BYTES)
    tape.node((mean,), (in_fp32,))
    difference = ops.subtract(tape, in_fp32, mean)
    root = reciprocal_root(tape, difference, rows)
    tape.drop(difference)
    centred_again = ops.subtract(tape, in_fp32, mean)
    normed = ops.multiply(tape, centred_again, root)
    tape.drop(in_fp32, mean, centred_again, root)
    return _scale_then_cast(tape, normed, weight, x.width)
