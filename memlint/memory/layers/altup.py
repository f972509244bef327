"""A layer of Gemma 3n: several residual streams of which one passes attention and MLP (AltUp), and a low-rank path
beside the attention (Laurel). Transformers 5.23 models/gemma3n/modeling_gemma3n.py, Gemma3nTextDecoderLayer.forward.

Coefficients of the streams are a few numbers per token. They are left out.
"""

from __future__ import annotations

from collections.abc import Callable

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project

Block = Callable[[Value], Value]


def altup_layer(
    context: LayerContext, norm: Block, attend: Block, feed: Block, own_embedding: Block, x: Value
) -> Value:
    """The output streams for the input streams `x`, which the caller drops. `norm`, `attend` (attention and its norm),
    `feed` (norm, MLP, norm) and `own_embedding` compute the parts that other families have as well."""
    tape = context.tape
    predictions = _predicted(context, norm, x)
    active = ops.slice_of(tape, predictions, "hidden")
    normed = norm(active)
    laurel = _laurel(context, norm, normed)
    mixed = attend(normed)
    tape.drop(normed)
    gated = ops.add(tape, active, mixed)
    tape.drop(active, mixed)
    summed = ops.add(tape, gated, laurel)
    tape.drop(gated, laurel)
    residual = ops.scale(tape, summed)
    tape.drop(summed)
    fed = feed(residual)
    activated = ops.add(tape, residual, fed)
    tape.drop(residual, fed)
    corrected = _corrected(context, norm, predictions, activated)
    tape.drop(predictions, activated)
    return _with_own_embedding(context, own_embedding, corrected)


def _modalities(context: LayerContext, norm: Block, x: Value) -> None:
    """`tanh(router(norm(x) * number))`: what its backward needs of the normed input."""
    tape = context.tape
    normed = norm(x)
    scaled = ops.scale(tape, normed)
    tape.drop(normed)
    routed = project(context, "modality_router", scaled, "rows")
    tape.drop(scaled, routed)


def _predicted(context: LayerContext, norm: Block, x: Value) -> Value:
    """`permuted(x) @ coefficients + x`: the product reads a permuted copy, its result is copied back in order."""
    tape = context.tape
    active = ops.slice_of(tape, x, "hidden")
    _modalities(context, norm, active)
    tape.drop(active)
    width = context.kernels.autocast_width or x.width
    operand = tape.new("streams", width)
    tape.node((operand,), (x,))
    product = tape.new("streams", width)
    tape.node((product,), (operand,), (operand,))
    tape.drop(operand)
    summed = ops.add(tape, product, x)
    tape.drop(product)
    found = ops.cast(tape, ops.copy(tape, summed), x.width)
    tape.drop(summed)
    return found


def _laurel(context: LayerContext, norm: Block, x: Value) -> Value:
    tape = context.tape
    low = project(context, "linear_left", x, "laurel")
    high = project(context, "linear_right", low, "hidden")
    tape.drop(low)
    normed = norm(high)
    tape.drop(high)
    found = ops.add(tape, x, normed)
    tape.drop(normed)
    return found


def _corrected(context: LayerContext, norm: Block, predictions: Value, activated: Value) -> Value:
    """`repeated(activated - predicted) * coefficients + predictions`."""
    tape = context.tape
    _modalities(context, norm, activated)
    innovation = ops.add(tape, activated, activated)
    repeated = tape.new("streams", innovation.width)
    tape.node((repeated,), (innovation,))
    tape.drop(innovation)
    product = tape.new("streams", repeated.width)
    tape.node((product,), (repeated,), (repeated,), (("streams", repeated.width),))
    tape.drop(repeated)
    found = tape.view(product)
    tape.node((found,), (product, predictions), aliases=True)
    tape.drop(product)
    return found


def _with_own_embedding(context: LayerContext, own_embedding: Block, corrected: Value) -> Value:
    """Every stream but the first plus the block that the layer's own embedding gates."""
    tape = context.tape
    active = ops.slice_of(tape, corrected, "hidden")
    first = ops.copy(tape, active)
    scaled = ops.scale(tape, first)
    tape.drop(first, active)
    added = own_embedding(scaled)
    tape.drop(scaled)
    found = tape.view(corrected)
    tape.node((found,), (corrected, added), aliases=True)
    tape.drop(added, corrected)
    return found
