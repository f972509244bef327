"""Linear projections with their adapter branches."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.fused_adapter import fused_projection
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.parameter_roles import Linear
from memlint.memory.parameters import MissingValue


def project(context: LayerContext, part: str, x: Value, extent: str) -> Value:
    """Apply the projection named `part` to `x`."""
    linear = context.linears.get(part)
    if linear is None:
        raise MissingValue(
            "model.architecture", f"this architecture's {part.replace('_', ' ')} projection is not known"
        )
    if linear.fused:
        return fused_projection(context, part, x, extent)
    if linear.rotation is not None:
        return _rotated(context, linear, linear.rotation, x, extent)
    result = ops.linear(context.tape, x, linear.weight, extent, context.kernels.autocast_width)
    if linear.down is None:
        return result
    return _with_lora(context, linear, x, result, extent)


# Copies of OFT's blocks that the Cayley-Neumann series of five terms and its products keep, without and with autocast's
# casts: counted in a simulated step (peft 0.21.2 tuners/oft/layer.py, _cayley_batch).
_KEPT_BLOCKS = (4, 7)


def _rotated(context: LayerContext, linear: Linear, rotation: Parameter, x: Value, extent: str) -> Value:
    """`W (R x)` with R block-diagonal (peft 0.21.2 tuners/oft/layer.py, Linear.forward): each projection keeps its
    input as the product read it, and the rotated one passes through the adapter's dtype."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    given = ops.cast(tape, x, rotation.width)
    read = ops.cast(tape, given, autocast_width or given.width)
    blocks = [tape.new(linear.rank, read.width) for _ in range(_KEPT_BLOCKS[autocast_width > 0])]
    product = tape.new(x.extent, read.width)
    gradient = (ParameterGradient(rotation.extent, rotation.width, rotation.width),)
    tape.node((product,), (read,), (read, *blocks), weights=gradient)
    straight = ops.copy(tape, product)
    tape.drop(read, product, *blocks)
    wide = ops.cast(tape, straight, given.width)
    back = ops.cast(tape, wide, x.width)
    tape.drop(straight, wide, given)
    found = ops.linear(tape, back, linear.weight, extent, autocast_width)
    tape.drop(back)
    return found


def _with_lora(context: LayerContext, linear: Linear, x: Value, result: Value, extent: str) -> Value:
    """`result + B(A(dropout(x))) * scaling` (peft 0.21.2 tuners/lora/layer.py, Linear.forward).

    The input is cast to the adapter's dtype first; under autocast it is cast back for the product, so each
    adapted projection keeps a copy of its input of its own. Over bitsandbytes layers it is not cast under autocast.
    """
    assert linear.down is not None and linear.up is not None
    tape, autocast_width = context.tape, context.kernels.autocast_width
    given = ops.cast(tape, x, linear.down.width if linear.casts or not autocast_width else x.width)
    dropped = ops.dropout(tape, given) if linear.dropout else given
    if linear.magnitude is not None:
        scaled = magnitude(context, linear, linear.magnitude, dropped, result, extent)
    else:
        high = _low_rank(context, linear, dropped, extent)
        scaled = ops.scale(tape, high)
        tape.drop(high)
    if linear.dropout:
        tape.drop(dropped)
    summed = ops.add(tape, result, scaled)
    found = ops.cast(tape, summed, result.width)  # back to the base layer's dtype
    tape.drop(result, scaled, given, summed)
    return found


def _low_rank(context: LayerContext, linear: Linear, x: Value, extent: str) -> Value:
    """`B(A(x))`."""
    assert linear.down is not None and linear.up is not None
    tape, autocast_width = context.tape, context.kernels.autocast_width
    low = ops.linear(tape, x, linear.down, linear.rank, autocast_width)
    high = ops.linear(tape, low, linear.up, extent, autocast_width)
    tape.drop(low)
    return high


def magnitude(context: LayerContext, linear: Linear, weight: Parameter, x: Value, result: Value, extent: str) -> Value:
    """DoRA: `(m / norm - 1) * base + m / norm * B(A(x)) * scaling` (peft 0.21.2 tuners/lora/dora.py, DoraLinearLayer).

    The norm is that of W + B A made whole, with an identity for the product; all of it dies when the layer returns. The
    two factors are kept for the magnitude's gradient. With dropout the base is computed once more, from the dropped
    input.
    """
    tape = context.tape
    made = _weight_norm(context, linear, x.width)
    high = _low_rank(context, linear, x, extent)
    base = _base_again(context, linear, x, extent) if linear.dropout else _without_bias(context, linear, result)
    first = _scaled(context, weight, base, extent)
    second = _scaled(context, weight, high, extent)
    tape.drop(base, high)
    times = ops.scale(tape, second)
    tape.drop(second)
    total = ops.add(tape, first, times)
    tape.drop(first, times, *made)
    return total


def _weight_norm(context: LayerContext, linear: Linear, width: int) -> tuple[Value, ...]:
    """`norm(W + scaling * B A)`; what stays until the layer returns: the identity as the product read it, B A, W."""
    assert linear.down is not None
    tape, base, extent = context.tape, linear.weight, linear.weight.extent
    autocast_width = context.kernels.autocast_width or linear.down.width
    identity = tape.new("eye:" + linear.rank[len("rank:") :], linear.down.width)
    read = ops.cast(tape, identity, autocast_width)
    product = tape.new(extent, autocast_width)
    tape.drop(identity)
    both = ops.cast(tape, product, width)
    tape.drop(product)
    made = [read, both]
    if base.quantized:
        whole = tape.new(extent, context.kernels.autocast_width or width)
        made.append(ops.cast(tape, whole, width))
        tape.drop(whole)
    elif base.width != width:
        made.append(tape.new(extent, width))
    tape.spike((extent, width), (extent, width))
    return tuple(made)


def _without_bias(context: LayerContext, linear: Linear, result: Value) -> Value:
    if linear.bias is None:
        return context.tape.view(result)
    return ops.scale(context.tape, result)


def _base_again(context: LayerContext, linear: Linear, x: Value, extent: str) -> Value:
    """`F.linear(x, W)` on W as the norm read it: its autocast copy is kept for the input's gradient."""
    tape, base = context.tape, linear.weight
    given = ops.cast(tape, x, context.kernels.autocast_width or x.width)
    found = tape.new(extent, given.width)
    copied = base.quantized or base.width != x.width or given.width != x.width
    kept = (tape.new(base.extent, given.width),) if copied else ()
    tape.node((found,), (given,), kept)
    tape.drop(given, *kept)
    return found


def _scaled(context: LayerContext, weight: Parameter, x: Value, extent: str) -> Value:
    """A row of magnitudes times `x`; the magnitudes' gradient is a full product before its sum."""
    tape, width = context.tape, max(weight.width, x.width)
    found = tape.new(extent, width)
    gradient = (ParameterGradient(weight.extent, weight.width, weight.width),)
    tape.node((found,), (x,), (x,), ((extent, width),), weights=gradient, gradient_width=width)
    return found
