"""LFM2's short convolution: `out(C * conv(B * x))` (transformers 5.23 models/lfm2/modeling_lfm2.py, Lfm2ShortConv)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def short_conv(context: LayerContext, x: Value, convolution: Parameter | None) -> Value:
    """The output of the mixer for the normed input `x`."""
    tape = context.tape
    joined = project(context, "in_projection", x, "hidden*3")
    b, c, value = ops.split(tape, joined, ("hidden", "hidden", "hidden"))
    gated = ops.multiply(tape, b, value)
    convolved = depthwise_convolution(context, gated, convolution)
    tape.drop(gated)
    product = ops.multiply(tape, c, convolved)
    contiguous = ops.copy(tape, product)
    tape.drop(product)
    found = project(context, "output", contiguous, "hidden")
    tape.drop(contiguous, convolved, joined, b, c, value)
    return found


def silu_convolution(context: LayerContext, x: Value, weight: Parameter | None) -> Value:
    """`silu(conv1d(x))` in x's dtype. PyTorch saves the inputs of both."""
    tape = context.tape
    convolved = depthwise_convolution(context, x, weight)
    activated = ops.unary(tape, convolved)
    tape.drop(convolved)
    found = ops.cast(tape, activated, x.width)
    tape.drop(activated)
    return found


def depthwise_convolution(context: LayerContext, x: Value, weight: Parameter | None) -> Value:
    """A convolution over time, channel by channel. It saves its input in the dtype that it computes in."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    gradients = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight and weight.trainable else ()
    operand = ops.cast(tape, x, autocast_width or (weight.width if weight else x.width))
    found = tape.new(x.extent, operand.width)
    tape.node((found,), (operand,), (operand,), weights=gradients)
    tape.drop(operand)
    return found
