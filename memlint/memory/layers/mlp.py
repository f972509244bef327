"""Feed-forward blocks."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
import memlint.memory.layers.norm as norm
from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Tape, Value
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
