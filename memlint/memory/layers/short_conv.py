"""LFM2's short convolution: `out(C * conv(B * x))` (transformers 5.23 models/lfm2/modeling_lfm2.py, Lfm2ShortConv)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def short_conv(context: LayerContext, x: Value, convolution: Parameter | None) -> Value:
    """The whole mixer on the normed input `x`."""
    tape = context.tape
    joined = project(context, "in_projection", x, "hidden*3")
    before, after, value = ops.split(tape, joined, ("hidden", "hidden", "hidden"))
    gated = ops.multiply(tape, before, value)
    convolved = depthwise(context, gated, convolution)
    tape.drop(gated)
    product = ops.multiply(tape, after, convolved)
    given = ops.copy(tape, product)
    tape.drop(product)
    found = project(context, "output", given, "hidden")
    tape.drop(given, convolved, joined, before, after, value)
    return found


def activated(context: LayerContext, x: Value, weight: Parameter | None) -> Value:
    """`silu(conv1d(x))` in x's dtype; PyTorch keeps the inputs of both."""
    tape = context.tape
    convolved = depthwise(context, x, weight)
    acted = ops.unary(tape, convolved)
    tape.drop(convolved)
    found = ops.cast(tape, acted, x.width)
    tape.drop(acted)
    return found


def depthwise(context: LayerContext, x: Value, weight: Parameter | None) -> Value:
    """A convolution over time, channel by channel: keeps its input as it read it."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    gradients = (ParameterGradient(weight.extent, weight.width, weight.width),) if weight and weight.trainable else ()
    given = ops.cast(tape, x, autocast_width or (weight.width if weight else x.width))
    found = tape.new(x.extent, given.width)
    tape.node((found,), (given,), (given,), weights=gradients)
    tape.drop(given)
    return found
