"""Linear projections with their adapters."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.int8_product import base_product
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.state.parameter_roles import Linear
from memlint.memory.state.parameters import MissingValue


def project(context: LayerContext, part: str, x: Value, extent: str) -> Value:
    """The output of the projection `part` (a role, see parameter_roles.py) for `x`, its adapter included.

    Raises `MissingValue` where the layer has no such projection.
    """
    linear = context.linears.get(part)
    if linear is None:
        raise MissingValue(
            "model.architecture", f"this architecture's {part.replace('_', ' ')} projection is not known"
        )
    if linear.fused:
        from memlint.memory.layers.fused_adapter import fused_projection  # Unsloth's kernels

        return fused_projection(context, part, x, extent)
    if linear.rotation is not None:
        return _with_oft(context, linear, linear.rotation, x, extent)
    result = base_product(context, linear.weight, x, extent)
    if linear.down is None:
        return result
    return _with_lora(context, linear, x, result, extent)


# Copies of OFT's blocks that the Cayley-Neumann series of five terms and its products save, without and with autocast:
# counted in a simulated step (peft 0.21.2 tuners/oft/layer.py, _cayley_batch).
_SAVED_BLOCKS = (4, 7)


def _with_oft(context: LayerContext, linear: Linear, rotation: Parameter, x: Value, extent: str) -> Value:
    """`W (R x)` with R block-diagonal (peft 0.21.2 tuners/oft/layer.py, Linear.forward): each projection saves its
    input in the dtype of the product, and the rotated input is cast to the adapter's dtype and back."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    adapter_input = ops.cast(tape, x, rotation.width)
    operand = ops.cast(tape, adapter_input, autocast_width or adapter_input.width)
    blocks = [tape.new(linear.rank, operand.width) for _ in range(_SAVED_BLOCKS[autocast_width > 0])]
    product = tape.new(x.extent, operand.width)
    gradient = (ParameterGradient(rotation.extent, rotation.width, rotation.width),)
    tape.node((product,), (operand,), (operand, *blocks), weights=gradient)
    rotated = ops.copy(tape, product)
    tape.drop(operand, product, *blocks)
    in_adapter_dtype = ops.cast(tape, rotated, adapter_input.width)
    in_dtype = ops.cast(tape, in_adapter_dtype, x.width)
    tape.drop(rotated, in_adapter_dtype, adapter_input)
    found = base_product(context, linear.weight, in_dtype, extent)
    tape.drop(in_dtype)
    return found


def _with_lora(context: LayerContext, linear: Linear, x: Value, result: Value, extent: str) -> Value:
    """`result + B(A(dropout(x))) * scaling` (peft 0.21.2 tuners/lora/layer.py, Linear.forward).

    The input is cast to the adapter's dtype first. Under autocast it is cast back for the product, so each projection
    with an adapter saves a copy of its input. Over bitsandbytes layers autocast leaves out the first cast (lora/bnb.py,
    Linear4bit.forward and Linear8bitLt.forward, `requires_conversion`).
    """
    assert linear.down is not None and linear.up is not None
    tape, autocast_width = context.tape, context.kernels.autocast_width
    adapter_input = ops.cast(tape, x, linear.down.width if linear.casts or not autocast_width else x.width)
    after_dropout = ops.dropout(tape, adapter_input) if linear.dropout else adapter_input
    if linear.magnitude is not None:
        scaled = dora(context, linear, linear.magnitude, after_dropout, result, extent)
        if linear.dropout:
            tape.drop(after_dropout)
    else:
        adapter_output = _low_rank(context, linear, after_dropout, extent, consumes=linear.dropout)
        scaled = ops.scale(tape, adapter_output)
        tape.drop(adapter_output)
    summed = ops.add(tape, result, scaled)
    # Back to the base layer's dtype, which bitsandbytes layers leave out under autocast: DoRA's sum stays fp32.
    found = ops.cast(tape, summed, result.width if linear.casts or not autocast_width else summed.width)
    tape.drop(result, scaled, adapter_input, summed)
    return found


def _low_rank(context: LayerContext, linear: Linear, x: Value, extent: str, consumes: bool = False) -> Value:
    """`B(A(x))`. `consumes`: nothing else holds `x`, which goes when `A` returns."""
    assert linear.down is not None and linear.up is not None
    tape, autocast_width = context.tape, context.kernels.autocast_width
    low = ops.linear(tape, x, linear.down, linear.rank, autocast_width)
    if consumes:
        tape.drop(x)
    output = ops.linear(tape, low, linear.up, extent, autocast_width)
    tape.drop(low)
    return output


def dora(context: LayerContext, linear: Linear, weight: Parameter, x: Value, result: Value, extent: str) -> Value:
    """DoRA: `(m / norm - 1) * base + m / norm * B(A(x)) * scaling` (peft 0.21.2 tuners/lora/dora.py, DoraLinearLayer).

    The norm is that of W + B A, which is computed in full with an identity matrix and freed when the layer returns. The
    two factors are saved for the magnitude's gradient. With dropout the base is computed once more, from the input
    after dropout.
    """
    tape = context.tape
    kept = _weight_norm(context, linear, x.width)
    adapter_output = _low_rank(context, linear, x, extent)
    base = (
        _base_recomputed(context, linear, x, extent) if linear.dropout else _base_without_bias(context, linear, result)
    )
    scaled_base = _times_magnitude(context, weight, base, extent)
    scaled_adapter = _times_magnitude(context, weight, adapter_output, extent)
    tape.drop(base, adapter_output)
    adapter_term = ops.scale(tape, scaled_adapter)
    tape.drop(scaled_adapter)
    total = ops.add(tape, scaled_base, adapter_term)
    tape.drop(scaled_base, adapter_term, *kept)
    return total


def _weight_norm(context: LayerContext, linear: Linear, width: int) -> tuple[Value, ...]:
    """`norm(W + scaling * B A)`. Returns the tensors that live until the layer returns: the identity, B A and W."""
    assert linear.down is not None
    tape, base, extent = context.tape, linear.weight, linear.weight.extent
    autocast_width = context.kernels.autocast_width or linear.down.width
    identity = tape.new("eye:" + linear.rank[len("rank:") :], linear.down.width)
    identity_operand = ops.cast(tape, identity, autocast_width)
    product = tape.new(extent, autocast_width)
    tape.drop(identity)
    merged_delta = ops.cast(tape, product, width)
    tape.drop(product)
    kept = [identity_operand, merged_delta]
    if base.quantized:
        dequantized = tape.new(extent, context.kernels.autocast_width or width)
        kept.append(ops.cast(tape, dequantized, width))
        tape.drop(dequantized)
    elif base.width != width:
        kept.append(tape.new(extent, width))
    tape.spike((extent, width), (extent, width))
    return tuple(kept)


def _base_without_bias(context: LayerContext, linear: Linear, result: Value) -> Value:
    if linear.bias is None:
        return context.tape.view(result)
    return ops.scale(context.tape, result)


def _base_recomputed(context: LayerContext, linear: Linear, x: Value, extent: str) -> Value:
    """`F.linear(x, W)` with the W of the norm. Its autocast copy is saved for the input's gradient."""
    tape, base = context.tape, linear.weight
    operand = ops.cast(tape, x, context.kernels.autocast_width or x.width)
    found = tape.new(extent, operand.width)
    casts_weight = base.quantized or base.width != x.width or operand.width != x.width
    weight_copy = (tape.new(base.extent, operand.width),) if casts_weight else ()
    tape.node((found,), (operand,), weight_copy)
    tape.drop(operand, *weight_copy)
    return found


def _times_magnitude(context: LayerContext, weight: Parameter, x: Value, extent: str) -> Value:
    """A row of magnitudes times `x`. The magnitudes' gradient is a full product before its sum."""
    tape, width = context.tape, max(weight.width, x.width)
    found = tape.new(extent, width)
    gradient = (ParameterGradient(weight.extent, weight.width, weight.width),)
    tape.node((found,), (x,), (x,), ((extent, width),), weights=gradient, gradient_width=width)
    return found
