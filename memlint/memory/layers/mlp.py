"""Feed-forward blocks."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Value
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.fused_adapter import fused_mlp
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.projection import project


def mlp(context: LayerContext, shape: Mlp, x: Value, prefix: str = "", drops_input: bool = False) -> Value:
    """The output of a dense MLP for the normed input `x`. `prefix`: "shared_" for the shared expert of a mixture.
    `drops_input`: of an MLP without a gate, whose first projection is the last to hold `x`."""
    if shape.kind == "gated":
        return _gated(context, shape, x, prefix)
    return _ungated(context, shape, x, prefix, drops_input)


def _gated(context: LayerContext, shape: Mlp, x: Value, prefix: str) -> Value:
    """`down(act(gate(x)) * up(x))`."""
    tape = context.tape
    extent = prefix + "intermediate"
    if shape.fused_gate_up:
        return _fused_gate_up(context, shape, x, prefix)
    linear = context.linears.get("gate")
    if not prefix and linear is not None and linear.fused:
        return fused_mlp(context, x, extent)
    gate = project(context, prefix + "gate", x, extent)
    if not prefix and context.kernels.liger and context.kernels.gated_kernel:
        return _liger_product(context, gate, x, extent)
    gate = scaled_by_config(context, gate)
    if shape.sparse_gate:
        gate = ops.replace(tape, gate, _largest(context, gate))
    active = activate(context, shape.activation, gate)
    tape.drop(gate)
    up = project(context, prefix + "up", x, extent)
    product = ops.multiply(tape, active, up)
    tape.drop(active, up)
    if context.family.norm.inside_blocks:
        normed = norm.rms(tape, product, context.inner_norm, "rows")
        tape.drop(product)
        product = normed
    product = _dropped_inside(context, shape, product)
    found = project(context, prefix + "down", product, "hidden")
    tape.drop(product)
    return scaled_by_config(context, found)


def _largest(context: LayerContext, x: Value) -> Value:
    """`relu(x - (mean(x) + std(x) * number))` by row (transformers 5.23 models/gemma3n/modeling_gemma3n.py,
    Gemma3nTextMLP._gaussian_topk): the deviation saves its input, ReLU its result."""
    tape = context.tape
    mean, deviation = tape.new("rows", x.width), tape.new("rows", x.width)
    tape.node((mean,), (x,))
    tape.node((deviation,), (x,), (x, deviation))
    cutoff = ops.add(tape, mean, deviation)
    difference = tape.new(x.extent, x.width)
    tape.node((difference,), (x, cutoff), aliases=True)
    tape.drop(mean, deviation, cutoff)
    found = ops.unary_by_result(tape, difference)
    tape.drop(difference)
    return found


def _dropped_inside(context: LayerContext, shape: Mlp, x: Value) -> Value:
    """`dropout(x)`, and T5's `.to(wo.weight.dtype)` (transformers 5.23 models/t5/modeling_t5.py, T5DenseActDense)."""
    tape, family = context.tape, context.family
    if not family.drops_inside_mlp:
        return x
    after = ops.dropout(tape, x) if shape.dropout else ops.hold(x)
    width = context.linears["down"].weight.width if family.casts_inside_mlp else 0
    found = ops.cast(tape, after, width or after.width)
    tape.drop(x, after)
    return found


def scaled_by_config(context: LayerContext, x: Value) -> Value:
    """`x * number` in families that scale projections by numbers of their configuration, else `x`."""
    if not context.family.multiplies_projections:
        return x
    found = ops.scale(context.tape, x)
    context.tape.drop(x)
    return found


def _liger_product(context: LayerContext, gate: Value, x: Value, extent: str) -> Value:
    """Liger's SwiGLU and GeGLU: one product that saves both factors and writes their gradients over them
    (liger_kernel 0.8.5 ops/swiglu.py, LigerSiLUMulFunction)."""
    tape = context.tape
    up = project(context, "up", x, extent)
    product = tape.new(extent, gate.width)
    tape.node((product,), (gate, up), (gate, up), aliases=True)
    tape.drop(gate, up)
    found = project(context, "down", product, "hidden")
    tape.drop(product)
    return found


def _fused_gate_up(context: LayerContext, shape: Mlp, x: Value, prefix: str) -> Value:
    """One projection for gate and up (transformers 5.23 models/phi3/modeling_phi3.py, Phi3MLP)."""
    tape = context.tape
    extent = prefix + "intermediate"
    gate_and_up = project(context, prefix + "gate_up", x, extent + "*2")
    gate, up = ops.split(tape, gate_and_up, (extent, extent))
    tape.drop(gate_and_up)
    active = activate(context, shape.activation, gate)
    product = ops.multiply(tape, up, active)
    tape.drop(active)
    found = project(context, prefix + "down", product, "hidden")
    tape.drop(gate, up, product)
    return found


def _ungated(context: LayerContext, shape: Mlp, x: Value, prefix: str, drops_input: bool) -> Value:
    """`down(act(up(x)))`."""
    tape = context.tape
    expanded = project(context, prefix + "up", x, prefix + "intermediate")
    if drops_input:
        tape.drop(x)
    active = activate(context, shape.activation, expanded)
    tape.drop(expanded)
    active = _dropped_inside(context, shape, active)
    found = project(context, prefix + "down", active, "hidden")
    tape.drop(active)
    return found
