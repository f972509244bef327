"""Feed-forward blocks."""

from __future__ import annotations

import memlint.memory.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.blocks.projection import project
from memlint.memory.blocks.regime import Context
from memlint.memory.tape import Tape, Value

_COMPOSED_GELU = ("gelu_new", "gelu_fast", "quick_gelu", "gelu_python")


def mlp(context: Context, shape: Mlp, x: Value, prefix: str = "") -> Value:
    """A dense MLP on the normed input; `prefix` picks the shared expert of a mixture."""
    if shape.kind == "gated":
        return _gated(context, shape, x, prefix)
    return _plain(context, shape, x, prefix)


def _gated(context: Context, shape: Mlp, x: Value, prefix: str) -> Value:
    """`down(act(gate(x)) * up(x))`."""
    tape = context.tape
    extent = prefix + "intermediate"
    if shape.fused_gate_up:
        return _fused(context, shape, x, prefix)
    gate = project(context, prefix + "gate", x, extent)
    if context.regime.liger and not prefix:
        return _liger(context, gate, x, extent)
    active = activate(context, shape.activation, gate)
    tape.drop(gate)
    up = project(context, prefix + "up", x, extent)
    product = ops.multiply(tape, active, up)
    tape.drop(active, up)
    found = project(context, prefix + "down", product, "hidden")
    tape.drop(product)
    return found


def _liger(context: Context, gate: Value, x: Value, extent: str) -> Value:
    """Liger's SwiGLU and GeGLU: one product, both factors kept, their gradients written over them (liger_kernel 0.8.5
    ops/swiglu.py, LigerSiLUMulFunction)."""
    tape = context.tape
    up = project(context, "up", x, extent)
    product = tape.new(extent, gate.width)
    tape.node((product,), (gate, up), (gate, up), aliases=True)
    tape.drop(gate, up)
    found = project(context, "down", product, "hidden")
    tape.drop(product)
    return found


def _fused(context: Context, shape: Mlp, x: Value, prefix: str) -> Value:
    """One projection for gate and up (transformers 5.23 models/phi3/modeling_phi3.py, Phi3MLP)."""
    tape = context.tape
    extent = prefix + "intermediate"
    both = project(context, prefix + "gate_up", x, extent + "*2")
    gate, up = ops.split(tape, both, (extent, extent))
    tape.drop(both)
    active = activate(context, shape.activation, gate)
    product = ops.multiply(tape, up, active)
    tape.drop(active)
    found = project(context, prefix + "down", product, "hidden")
    tape.drop(gate, up, product)
    return found


def _plain(context: Context, shape: Mlp, x: Value, prefix: str) -> Value:
    """`down(act(up(x)))`."""
    tape = context.tape
    wide = project(context, prefix + "up", x, prefix + "intermediate")
    active = activate(context, shape.activation, wide)
    tape.drop(wide)
    found = project(context, prefix + "down", active, "hidden")
    tape.drop(active)
    if shape.dropout:
        dropped = ops.dropout(tape, found)
        tape.drop(found)
        found = dropped
    return found


def activate(context: Context, name: str, x: Value) -> Value:
    """The activation function by transformers' name.

    CUDA autocast runs `pow` in fp32 (torch 2.13 aten/src/ATen/autocast_mode.h, AT_FORALL_FP32), which NewGELU calls
    and FastGELU does not.
    """
    tape = context.tape
    if name in ("gelu_new", "gelu_fast"):
        wide = name == "gelu_new" and context.regime.half and context.regime.in_kernels
        return _gelu_by_parts(tape, x, ops.SINGLE if wide else x.width)
    if name == "relu2":
        positive = ops.unary_by_result(tape, x)
        found = ops.unary(tape, positive, 2)
        tape.drop(positive)
        return found
    if name in ("relu", "tanh", "sigmoid"):
        return ops.unary_by_result(tape, x)
    return ops.unary(tape, x)


def _gelu_by_parts(tape: Tape, x: Value, width: int) -> Value:
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
    bounded = ops.unary_by_result(tape, outer)
    tape.drop(outer)
    shifted = tape.new(x.extent, width)
    tape.node((shifted,), (bounded,), aliases=True)
    tape.drop(bounded)
    found = ops.multiply(tape, half, shifted)
    tape.drop(half, shifted)
    return found
