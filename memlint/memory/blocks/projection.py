"""Linear projections with their adapter branches."""

from __future__ import annotations

import memlint.memory.ops as ops
from memlint.memory.blocks.regime import Context
from memlint.memory.parameters import Missing
from memlint.memory.roles import Linear
from memlint.memory.tape import Value


def project(context: Context, part: str, x: Value, extent: str) -> Value:
    """Apply the projection named `part` to `x`."""
    linear = context.linears.get(part)
    if linear is None:
        raise Missing("model.architecture", f"this architecture's {part.replace('_', ' ')} projection is not known")
    result = ops.linear(context.tape, x, linear.weight, extent, context.regime.half)
    if linear.down is None:
        return result
    return _with_lora(context, linear, x, result, extent)


def _with_lora(context: Context, linear: Linear, x: Value, result: Value, extent: str) -> Value:
    """`result + B(A(dropout(x))) * scaling` (peft 0.21.2 tuners/lora/layer.py, Linear.forward).

    The input is cast to the adapter's dtype first; under autocast it is cast back for the product, so each
    adapted projection keeps a copy of its input of its own.
    """
    assert linear.down is not None and linear.up is not None
    tape, half = context.tape, context.regime.half
    given = ops.cast(tape, x, linear.down.width)
    dropped = ops.dropout(tape, given) if linear.dropout else given
    low = ops.linear(tape, dropped, linear.down, linear.rank, half)
    if linear.dropout:
        tape.drop(dropped)
    high = ops.linear(tape, low, linear.up, extent, half)
    tape.drop(low)
    scaled = ops.scale(tape, high)
    tape.drop(high)
    summed = ops.add(tape, result, scaled)
    found = ops.cast(tape, summed, result.width)  # back to the base layer's dtype
    tape.drop(result, scaled, given, summed)
    return found
