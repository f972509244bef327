"""A layer of Gemma 3n: several residual streams of which one passes attention and MLP (AltUp), and a low-rank path
beside the attention (Laurel). Transformers 5.23 models/gemma3n/modeling_gemma3n.py, Gemma3nTextDecoderLayer.forward.
"""

from __future__ import annotations

from collections.abc import Callable

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import Roles

Block = Callable[[Value], Value]


def altup_layer(
    context: LayerContext, roles: Roles, norm: Block, attend: Block, feed: Block, own_embedding: Block, x: Value
) -> Value:
    """The output streams for the input streams `x`, which the caller drops. `norm`, `attend` (attention and its norm),
    `feed` (norm, MLP, norm) and `own_embedding` compute the parts that other families have as well."""
    tape = context.tape
    predictions = _predicted(context, norm, x)
    active = ops.slice_of(tape, predictions, "hidden")
    normed = norm(active)
    laurel = _laurel(context, norm, normed)
    mixed = attend(normed)
    gated = ops.add(tape, active, mixed)
    summed = ops.add(tape, gated, laurel)
    residual = ops.scale(tape, summed)
    tape.drop(summed)
    fed = feed(residual)
    activated = ops.add(tape, residual, fed)
    corrected = _corrected(context, norm, predictions, activated)
    found = _with_own_embedding(context, roles, own_embedding, corrected)
    # The layer's variables hold these until it returns.
    tape.drop(predictions, active, normed, laurel, mixed, gated, residual, fed, activated)
    return found


def _modalities(context: LayerContext, norm: Block, x: Value) -> Value:
    """`tanh(router(norm(x) * number).float()).type_as(x)`: one number for each stream and token."""
    tape = context.tape
    normed = norm(x)
    scaled = ops.scale(tape, normed)
    tape.drop(normed)
    routed = project(context, "modality_router", scaled, "stream_rows")
    tape.drop(scaled)
    in_fp32 = ops.cast(tape, routed, ops.FP32_BYTES)
    squashed = ops.unary_by_result(tape, in_fp32)
    found = ops.cast(tape, squashed, x.width)
    tape.drop(routed, in_fp32, squashed)
    return found


def _predicted(context: LayerContext, norm: Block, x: Value) -> Value:
    """`permuted(x) @ coefficients + x`, the sum in place: its result is copied back in order."""
    tape = context.tape
    active = ops.slice_of(tape, x, "hidden")
    modalities = _modalities(context, norm, active)
    tape.drop(active)
    coefficients = project(context, "prediction_coefs", modalities, "stream_pairs")
    tape.drop(modalities)
    operand = ops.cast(tape, x, context.kernels.autocast_width or x.width)
    if operand.width == x.width:  # the batched product reads its operand in order
        operand = ops.replace(tape, operand, ops.copy(tape, operand))
    product = tape.new("streams", operand.width)
    tape.node((product,), (operand, coefficients), (operand, coefficients))
    tape.drop(operand, coefficients)
    summed = Value(product.storage, product.extent, product.width, product.requires_grad)
    streams = (("streams", product.width),)
    tape.node((summed,), (product, x), temporaries=streams, gradient_width=product.width)  # in place on a view
    copied = ops.copy(tape, summed)
    found = ops.cast(tape, copied, x.width)
    tape.drop(summed, copied)
    return found


def _laurel(context: LayerContext, norm: Block, x: Value) -> Value:
    tape = context.tape
    low = project(context, "linear_left", x, "laurel")
    high = project(context, "linear_right", low, "hidden")
    tape.drop(low)
    normed = norm(high)
    found = ops.add(tape, x, normed)
    tape.drop(high, normed)
    return found


def _corrected(context: LayerContext, norm: Block, predictions: Value, activated: Value) -> Value:
    """`repeated(activated - predicted) * coefficients + predictions`, the sum in place."""
    tape = context.tape
    modalities = _modalities(context, norm, activated)
    active = ops.slice_of(tape, predictions, "hidden")
    negated = Value(active.storage, active.extent, active.width, active.requires_grad)
    tape.node((negated,), (active,))
    innovation = ops.add(tape, activated, negated)
    tape.drop(active)
    repeated = tape.new("streams", innovation.width)
    tape.node((repeated,), (innovation,))
    tape.drop(innovation)
    projected = project(context, "correction_coefs", modalities, "stream_rows")
    coefficients = ops.scale(tape, projected)
    tape.drop(modalities, projected)
    product = tape.new("streams", repeated.width)
    tape.node((product,), (repeated, coefficients), (repeated, coefficients), (("streams", repeated.width),))
    tape.drop(repeated, coefficients)
    found = Value(product.storage, product.extent, product.width, product.requires_grad)
    tape.node((found,), (product, predictions), aliases=True)
    return found


def _with_own_embedding(context: LayerContext, roles: Roles, own_embedding: Block, corrected: Value) -> Value:
    """Every stream but the first plus the block that the layer's own embedding gates, in place."""
    tape = context.tape
    active = ops.slice_of(tape, corrected, "hidden")
    first = ops.copy(tape, active)
    tape.drop(active)
    scaled = _scaled_by_parameter(context, roles, first)
    tape.drop(first)
    added = own_embedding(scaled)
    tape.drop(scaled)
    found = _plus_in_slice(context, corrected, added)
    tape.drop(added)
    return found


def _plus_in_slice(context: LayerContext, x: Value, added: Value) -> Value:
    """`x[1:] += added`: Python adds in place to a slice, and writes the slice back to where it is. Autograd copies the
    gradient of the whole and of the slice for each of the two (torch 2.13 torch/csrc/autograd/functions/
    tensor.cpp, CopySlices). Takes over the reference of `x`."""
    tape = context.tape
    others = (("other_streams", x.width),)
    summed = Value(x.storage, x.extent, x.width, x.requires_grad)
    tape.node((summed,), (x, added), temporaries=others)
    written = ops.slice_of(tape, summed, "other_streams")
    found = Value(x.storage, x.extent, x.width, x.requires_grad)
    tape.node((found,), (summed, written), temporaries=others)
    tape.drop(written)
    return found


def _scaled_by_parameter(context: LayerContext, roles: Roles, x: Value) -> Value:
    """`(x.type_as(scale) * scale).type_as(x)`; the scale is as large as a norm's weight."""
    tape, scale = context.tape, roles.norm
    if scale is None:
        return ops.scale(tape, x)
    in_dtype = ops.cast(tape, x, scale.width)
    scaled = ops.scale_by_weight(tape, scale, in_dtype)
    found = ops.cast(tape, scaled, x.width)
    tape.drop(in_dtype, scaled)
    return found
