"""The activation functions of MLPs, and of other layers that take one by its name."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Tape, Value
from memlint.memory.layers.kernel_config import LayerContext


def activate(context: LayerContext, name: str, x: Value) -> Value:
    """The activation function by transformers' name.

    CUDA autocast runs `pow` in fp32 (torch 2.13 aten/src/ATen/autocast_mode.h, AT_FORALL_FP32), which NewGELU calls
    and FastGELU does not.
    """
    tape = context.tape
    if name in ("gelu_new", "gelu_fast"):
        upcasts = name == "gelu_new" and context.kernels.autocast_width and context.kernels.kernel_memory
        return _gelu_as_separate_ops(tape, x, ops.FP32_BYTES if upcasts else x.width)
    if name == "quick_gelu":
        return _quick_gelu(tape, x)
    if name == "gelu_of_erf":
        return _gelu_of_erf(tape, x)
    if name == "relu2":
        return _relu_squared(context, x)
    if name == "xielu":
        return _xielu(context, x)
    if name in ("relu", "tanh", "sigmoid"):
        return ops.unary_by_result(tape, x)
    return ops.unary(tape, x)


def _quick_gelu(tape: Tape, x: Value) -> Value:
    """`x * sigmoid(1.702 * x)` (transformers 5.23 activations.py:117, QuickGELUActivation)."""
    scaled = ops.scale(tape, x)
    gate = ops.unary_by_result(tape, scaled)
    tape.drop(scaled)
    found = ops.multiply(tape, x, gate)
    tape.drop(gate)
    return found


def _gelu_of_erf(tape: Tape, x: Value) -> Value:
    """`x * 0.5 * (1 + erf(x / sqrt(2)))` as separate ops (transformers 5.23 models/esm/modeling_esm.py, gelu). The
    derivative of erf squares its input, negates that, takes exp and multiplies it twice."""
    half, divided = ops.scale(tape, x), ops.scale(tape, x)
    error = ops.unary(tape, divided, 4)
    tape.drop(divided)
    shifted = ops.add(tape, error, error)
    tape.drop(error)
    found = ops.multiply(tape, half, shifted)
    tape.drop(half, shifted)
    return found


def _relu_squared(context: LayerContext, x: Value) -> Value:
    """`square(relu(x))`: `square` is `pow` (torch 2.13 aten/src/ATen/native/UnaryOps.cpp), fp32 under autocast."""
    tape = context.tape
    positive = ops.unary_by_result(tape, x)
    upcasts = context.kernels.autocast_width and context.kernels.kernel_memory
    base = ops.cast(tape, positive, ops.FP32_BYTES if upcasts else x.width)
    found = ops.unary(tape, base, 2)
    tape.drop(positive, base)
    return found


def _xielu(context: LayerContext, x: Value) -> Value:
    """`where(x > 0, a * x * x + b * x, (expm1(min(x, eps)) - x) * c + b * x)` with a and c that train (transformers
    5.23 activations.py, XIELUActivation without its CUDA kernel); fp32 under autocast, as softplus and expm1 are."""
    tape, extent = context.tape, x.extent
    width = ops.FP32_BYTES if context.kernels.autocast_width else x.width
    trains = context.linears["down"].weight.trainable
    mask = tape.new(extent, 1)
    scaled_x = tape.new(extent, width)
    tape.node((scaled_x,), (x,), (x,) if trains else (), ((extent, width),) if trains else (), gradient_width=width)
    squared = ops.multiply(tape, scaled_x, x)
    tape.drop(scaled_x)
    positive = _plus_scaled(tape, squared, x)
    clamped = ops.unary(tape, x)
    in_width = ops.cast(tape, clamped, width)
    tape.drop(clamped)
    exponential = tape.new(extent, width)  # its derivative is `grad * (result + 1)`
    tape.node((exponential,), (in_width,), (exponential,), ((extent, width),))
    tape.drop(in_width)
    difference = ops.add(tape, exponential, x)
    tape.drop(exponential)
    scaled = tape.new(extent, width)
    tape.node((scaled,), (difference,), (difference,) if trains else (), ((extent, width),) if trains else ())
    tape.drop(difference)
    negative = _plus_scaled(tape, scaled, x)
    found = tape.new(extent, width)
    tape.node((found,), (positive, negative), (mask,))
    tape.drop(positive, negative, mask)
    return found


def _plus_scaled(tape: Tape, a: Value, x: Value) -> Value:
    """`a + number * x`. Drops `a`."""
    scaled = ops.scale(tape, x)
    found = ops.add(tape, a, scaled)
    tape.drop(a, scaled)
    return found


def _gelu_as_separate_ops(tape: Tape, x: Value, width: int) -> Value:
    """`0.5 * x * (1 + tanh(c * (x + 0.044715 * x ** 3)))` as separate ops (transformers 5.23 activations.py).

    `width`: bytes of one element of the cube and of all that follows from it.
    """
    half = ops.scale(tape, x)
    base = ops.cast(tape, x, width)
    cube = ops.unary(tape, base, 2)
    tape.drop(base)
    scaled = ops.scale(tape, cube)
    tape.drop(cube)
    inner = ops.add(tape, x, scaled)
    tape.drop(scaled)
    outer = ops.scale(tape, inner)
    tape.drop(inner)
    tanh = ops.unary_by_result(tape, outer)
    tape.drop(outer)
    shifted = tape.new(x.extent, width)
    tape.node((shifted,), (tanh,), aliases=True)
    tape.drop(tanh)
    found = ops.multiply(tape, half, shifted)
    tape.drop(half, shifted)
    return found
