"""Mixture of experts as transformers 5.23 runs it (integrations/moe.py; the default on CUDA is grouped_mm)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import mlp
from memlint.memory.layers.moe_host import host_experts
from memlint.memory.layers.moe_loop import experts_in_loop
from memlint.memory.layers.moe_scatter import scattered_experts
from memlint.memory.layers.parameter_adapter import with_adapter
from memlint.memory.layers.projection import project
from memlint.memory.layers.router import route
from memlint.memory.parameter_roles import Roles

_INDEX = 8  # int64
_SHARED_GATE = "shared_shared_expert_gate"
_EXPERT_KERNELS = {"loop": experts_in_loop, "scattermoe": scattered_experts, "host": host_experts}


def mixture(context: LayerContext, shape: Mlp, roles: Roles, x: Value, routed: Value | None = None) -> Value:
    """Router, experts on the tokens routed to them, and the shared experts. `routed`: the router's input, else `x`."""
    tape = context.tape
    traits = context.family.experts
    if traits.every_expert:
        return _all_experts(context, shape, dict(roles.experts), x, route(context, roles, routed or x))
    first = _shared_experts(context, shape, x) if traits.shared_first else None
    scores = route(context, roles, routed or x)
    found = _in_expert_space(context, shape, roles, x, scores)
    tape.drop(scores)
    shared = first or _shared_experts(context, shape, x)
    if shared is None:
        return found
    weighted = _gated(context, x, shared)
    total = ops.add(tape, found, weighted)
    tape.drop(found, weighted)
    return total


def _shared_experts(context: LayerContext, shape: Mlp, x: Value) -> Value | None:
    return _shared_expert(context, shape, x) if shape.shared_intermediate_size else None


def _gated(context: LayerContext, x: Value, shared: Value) -> Value:
    """`sigmoid(gate(x)) * shared`, with one number per row (transformers 5.23
    models/qwen2_moe/modeling_qwen2_moe.py:346)."""
    if _SHARED_GATE not in context.linears:
        return shared
    tape = context.tape
    product = project(context, _SHARED_GATE, x, "rows")
    gate = ops.unary_by_result(tape, product)
    found = ops.multiply_by_row(tape, shared, gate, max(shared.width, gate.width))
    tape.drop(product, gate, shared)
    return found


def _in_expert_space(context: LayerContext, shape: Mlp, roles: Roles, x: Value, scores: Value) -> Value:
    """The experts, between projections into their own hidden size and back where that is smaller (transformers 5.23
    models/nemotron_h/modeling_nemotron_h.py:741-754, NemotronHMoE.forward)."""
    tape = context.tape
    run_experts = _EXPERT_KERNELS.get(context.kernels.experts, _grouped_experts)
    if not shape.expert_hidden_size:
        return run_experts(context, shape, dict(roles.experts), x, scores)
    projected = project(context, "fc1_latent_proj", x, "routed")
    mixed = run_experts(context, shape, dict(roles.experts), projected, scores)
    tape.drop(projected)
    found = project(context, "fc2_latent_proj", mixed, "hidden")
    tape.drop(mixed)
    return found


def _shared_expert(context: LayerContext, shape: Mlp, x: Value) -> Value:
    """The shared experts, which have the same kind of MLP as the routed ones."""
    fused = "shared_gate_up" in context.linears
    return mlp(context, shape._replace(kind=shape.expert_kind, fused_gate_up=fused), x, "shared_")


def _all_experts(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """Llama 4: each expert runs on all tokens, in batched products; then the shared expert, and the sum over experts
    (transformers 5.23 models/llama4/modeling_llama4.py, Llama4TextMoe and Llama4TextExperts)."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    repeated = tape.new("chosen_hidden", x.width)
    tape.node((repeated,), (x,))
    routed = _weighted(tape, repeated, scores)
    tape.drop(repeated, scores)
    gate_up = experts.get("gate_up")
    if gate_up is not None and gate_up.quantized and not gate_up.adapter_width:
        produced = _quantized_experts(tape, routed)
        return _plus_shared_expert(context, shape, x, routed, produced)
    gate_and_up = ops.linear(
        tape, routed, experts.get("gate_up") or Parameter("w:experts", x.width), "chosen_inner*2", autocast_width
    )
    gate, up = ops.split(tape, gate_and_up, ("chosen_inner", "chosen_inner"))
    active = activate(context, shape.activation, gate)
    inner = ops.multiply(tape, active, up)
    tape.drop(active)
    produced = ops.linear(
        tape, inner, experts.get("down") or Parameter("w:experts", x.width), "chosen_hidden", autocast_width
    )
    tape.drop(inner, gate_and_up, gate, up)
    return _plus_shared_expert(context, shape, x, routed, produced)


def _quantized_experts(tape: Tape, routed: Value) -> Value:
    """Quantised experts are linear layers that run one after another, each writing its rows of a zero tensor (axolotl
    0.19.0 monkeypatch/models/llama4/modeling.py, Llama4TextExperts.forward). The activation saves its input, the
    product its factors. The backward of each write copies the gradient of all rows to take its own."""
    width = routed.width
    found = tape.new("chosen_hidden", width)
    saved = [tape.new("chosen_inner", width) for _ in range(3 if tape.grad else 0)]
    temporaries = (("expert_inner", width),) * (1 if tape.grad else 3)
    tape.spike(*temporaries, ("expert_matrix", width), ("expert_hidden", width))
    backward_temporaries = (
        ("chosen_hidden", width),
        ("expert_inner", width),
        ("expert_inner", width),
        ("expert_matrix", width),
    )
    tape.node((found,), (routed,), saved, backward_temporaries)
    tape.drop(*saved)
    return found


def _plus_shared_expert(context: LayerContext, shape: Mlp, x: Value, routed: Value, produced: Value) -> Value:
    """The shared expert's output plus the sum over the routed experts'."""
    tape = context.tape
    shared = _shared_expert(context, shape, x)
    summed = tape.new("hidden", produced.width)
    tape.node((summed,), (produced,))
    total = ops.add(tape, shared, summed)
    tape.drop(routed, produced, shared, summed)
    return total


def _grouped_experts(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value
) -> Value:
    """`grouped_mm_experts_forward`: tokens sorted by expert, two grouped products, scores, order restored."""
    tape = context.tape
    sorted_order, rows = tape.new("chosen", _INDEX), tape.new("chosen", _INDEX)
    chosen = _gather(tape, x, "chosen_hidden", rows)
    sorted_scores = _gather(tape, scores, "chosen", sorted_order)
    kept_weights: list[Value] = []
    inner = _inner(context, shape, experts, chosen, kept_weights)
    produced = _product(context, inner, experts.get("down"), "chosen_hidden", kept_weights)
    tape.drop(inner)
    weighted = _weighted(tape, produced, sorted_scores, FP32_BYTES if context.kernels.mixes_halves else 0)
    original_order = tape.new("chosen", _INDEX)
    restored = _gather(tape, weighted, "chosen_hidden", original_order)
    tape.drop(weighted)
    # autocast sums in fp32
    found = tape.new(x.extent, FP32_BYTES if context.kernels.autocast_width else restored.width)
    tape.node((found,), (restored,))
    result = ops.cast(tape, found, x.width)
    tape.drop(found, restored, original_order, sorted_order, rows, chosen, sorted_scores, produced, *kept_weights)
    return result


def _inner(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], chosen: Value, kept_weights: list[Value]
) -> Value:
    tape = context.tape
    if shape.expert_kind != "gated" or "gate_up" not in experts:
        expanded = _product(context, chosen, experts.get("up"), "chosen_inner", kept_weights)
        active = activate(context, shape.activation, expanded)
        tape.drop(expanded)
        return active
    if context.family.experts.clamps_gate:
        return _biased_inner(context, experts["gate_up"], chosen, kept_weights)
    gate_and_up = _product(context, chosen, experts["gate_up"], "chosen_inner*2", kept_weights)
    gate, up = ops.split(tape, gate_and_up, ("chosen_inner", "chosen_inner"))
    active = activate(context, shape.activation, gate)
    found = ops.multiply(tape, active, up)
    tape.drop(gate_and_up, gate, up, active)
    return found


def _biased_inner(context: LayerContext, gate_up: Parameter, chosen: Value, kept_weights: list[Value]) -> Value:
    """gpt-oss's experts: beside a grouped product a Python variable holds the biases of all chosen rows while the gate
    is computed (transformers 5.23 integrations/moe.py, grouped_mm_experts_forward, `selected_biases`)."""
    tape = context.tape
    grouped_product = context.kernels.experts == "grouped_mm"
    biases = (tape.new("chosen_inner*2", gate_up.width or chosen.width),) if grouped_product else ()
    gate_and_up = _product(context, chosen, gate_up, "chosen_inner*2", kept_weights)
    gate, up = ops.split(tape, gate_and_up, ("chosen_inner", "chosen_inner"))
    found = _clamped(tape, gate, up)
    tape.drop(*biases, gate_and_up, gate, up)
    return found


def _clamped(tape: Tape, gate: Value, up: Value) -> Value:
    """`(clamp(up) + 1) * gate * sigmoid(gate * alpha)` with a clamped gate (models/gpt_oss/modeling_gpt_oss.py)."""
    clamped_gate = ops.unary(tape, gate)
    scaled = ops.scale(tape, clamped_gate)
    sigmoid = ops.unary_by_result(tape, scaled)
    tape.drop(scaled)
    active = ops.multiply(tape, clamped_gate, sigmoid)
    clamped_up = ops.unary(tape, up)
    shifted = ops.scale(tape, clamped_up)
    found = ops.multiply(tape, shifted, active)
    tape.drop(clamped_gate, sigmoid, active, clamped_up, shifted)
    return found


def _product(
    context: LayerContext, x: Value, weight: Parameter | None, extent: str, kept_weights: list[Value]
) -> Value:
    """One product of all experts. `kept_weights`: weights that a Python variable holds until the experts are done: the
    dequantised stacks, or the weight with LoRA merged into it (`selected_weights`)."""
    parameter = weight or Parameter("w:experts", x.width)
    if parameter.quantized and context.kernels.dequantized_width:
        return _dequantized(context, x, parameter, extent, kept_weights)
    if context.kernels.keeps_stacks and not parameter.adapter_width:
        return _with_kept_stack(context.tape, x, parameter, extent)
    if context.kernels.experts != "copied" or parameter.adapter_width:
        return grouped(context.tape, x, weight, extent, kept_weights)
    return _per_expert_copies(context.tape, x, parameter, extent)


def _dequantized(
    context: LayerContext, x: Value, quantized: Parameter, extent: str, kept_weights: list[Value]
) -> Value:
    """All experts of a quantised stack, dequantised when the parameter is read and cached until the experts are done.
    The product saves them for its input's gradient (bitsandbytes 0.50.2 nn/parametrize.py:40 and 133, axolotl 0.19.0
    monkeypatch/moe_quant.py:24). 8-bit ones are multiplied twice, into fp32 (bitsandbytes 0.50.2 _ops.py:121)."""
    tape, width = context.tape, context.kernels.dequantized_width
    if quantized.width:
        tape.spike((quantized.extent, width), (quantized.extent, width))
    stack = tape.new(quantized.extent, width)
    kept_weights.append(stack)
    operand = ops.cast(tape, x, width)
    found = tape.new(extent, width)
    tape.node((found,), (operand,), (stack,))
    tape.drop(operand)
    return found


def _per_expert_copies(tape: Tape, x: Value, parameter: Parameter, extent: str) -> Value:
    """`x @ weight[index]`, expert by expert. The index is a tensor, so this copies the weight; the product saves the
    copy. The gradient is scattered into zeros of all experts and added to the sum of the earlier ones
    (models/gpt_oss/modeling_gpt_oss.py:103, v4.55.4)."""
    operand = ops.cast(tape, x, parameter.width or x.width)
    copy = tape.new(parameter.extent, parameter.width)
    found = tape.new(extent, operand.width)
    gradients = (ParameterGradient(parameter.extent, operand.width, parameter.width),) if parameter.trainable else ()
    scattered = ((parameter.extent, operand.width),) if parameter.trainable else ()
    tape.node((found,), (operand,), (operand, copy) if parameter.trainable else (copy,), scattered, weights=gradients)
    tape.drop(operand, copy)
    return found


def grouped(tape: Tape, x: Value, weight: Parameter | None, extent: str, kept_weights: list[Value]) -> Value:
    """`grouped_mm`: autocast does not apply, and the input is cast to the weights' dtype."""
    parameter = weight or Parameter("w:experts", x.width)
    operand = ops.cast(tape, x, parameter.width or x.width)
    if parameter.adapter_width:
        return _with_merged_lora(tape, operand, parameter, extent, kept_weights)
    found = tape.new(extent, operand.width)
    gradients = (ParameterGradient(parameter.extent, operand.width, parameter.width),) if parameter.trainable else ()
    tape.node((found,), (operand,), (operand,) if parameter.trainable else (), weights=gradients)
    tape.drop(operand)
    return found


def _with_kept_stack(tape: Tape, x: Value, parameter: Parameter, extent: str) -> Value:
    """The same where the product saves a stack that the engine gathered: it stays until the backward."""
    stack = tape.new(parameter.extent, parameter.width)
    operand = ops.cast(tape, x, parameter.width or x.width)
    found = tape.new(extent, operand.width)
    gradients = (ParameterGradient(parameter.extent, operand.width, parameter.width),) if parameter.trainable else ()
    tape.node((found,), (operand,), (operand, stack) if parameter.trainable else (stack,), weights=gradients)
    tape.drop(operand, stack)
    return found


def _with_merged_lora(
    tape: Tape, operand: Value, parameter: Parameter, extent: str, kept_weights: list[Value]
) -> Value:
    """With LoRA on stacked experts the product reads W + B A."""
    merged = with_adapter(tape, parameter)
    tape.drop(*kept_weights)
    kept_weights[:] = [merged]
    found = tape.new(extent, operand.width)
    tape.node((found,), (operand, merged), (operand, merged))
    tape.drop(operand)
    return found


def _weighted(tape: Tape, produced: Value, scores: Value, least_width: int = 0) -> Value:
    """Rows times their score. The scores' gradient is a full product, summed when the rows' gradient has been cast
    (torch/csrc/autograd/engine.cpp, validate_outputs: gradients one after the other)."""
    width = max(produced.width, scores.width, least_width)
    scores.storage.references += 1
    score_per_element = Value(scores.storage, "chosen_hidden", width, scores.requires_grad)
    tape.node((score_per_element,), (scores,))
    found = tape.new("chosen_hidden", width)
    saved = [
        value for value, other in ((produced, score_per_element), (score_per_element, produced)) if other.requires_grad
    ]
    tape.node((found,), (produced, score_per_element), saved, gradient_width=width)
    tape.drop(score_per_element)
    return found


def _gather(tape: Tape, x: Value, extent: str, indexes: Value) -> Value:
    """`x[indexes]`. Its gradient is scattered into zeros, out of place."""
    found = tape.new(extent, x.width)
    tape.node((found,), (x,), (indexes,), ((x.extent, x.width),))
    return found
