"""Mixture of experts as transformers 5.23 runs it (integrations/moe.py; the default on CUDA is grouped_mm)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import activate, mlp
from memlint.memory.layers.moe_loop import loop
from memlint.memory.layers.projection import project
from memlint.memory.parameter_roles import Roles

_INDEX = 8  # int64


def mixture(context: LayerContext, shape: Mlp, roles: Roles, x: Value, routed: Value | None = None) -> Value:
    """Router, experts on the chosen tokens, and shared experts if there are any. `routed`: what the router reads."""
    tape = context.tape
    scores = _route(context, roles, routed or x)
    if context.family.experts.every_expert:
        return _every(context, shape, dict(roles.experts), x, scores)
    found = _in_their_space(context, shape, roles, x, scores)
    tape.drop(scores)
    if not shape.shared_intermediate_size:
        return found
    shared = _shared(context, shape, x)
    total = ops.add(tape, found, shared)
    tape.drop(found, shared)
    return total


def _in_their_space(context: LayerContext, shape: Mlp, roles: Roles, x: Value, scores: Value) -> Value:
    """The experts, between a projection into a smaller space and one back where they have one (transformers 5.23
    models/nemotron_h/modeling_nemotron_h.py:741-754, NemotronHMoE.forward)."""
    tape = context.tape
    run_experts = loop if context.kernels.experts == "loop" else _experts
    if not shape.expert_hidden_size:
        return run_experts(context, shape, dict(roles.experts), x, scores)
    narrow = project(context, "fc1_latent_proj", x, "routed")
    mixed = run_experts(context, shape, dict(roles.experts), narrow, scores)
    tape.drop(narrow)
    found = project(context, "fc2_latent_proj", mixed, "hidden")
    tape.drop(mixed)
    return found


def _shared(context: LayerContext, shape: Mlp, x: Value) -> Value:
    """Shared experts are of the routed ones' kind."""
    fused = "shared_gate_up" in context.linears
    return mlp(context, shape._replace(kind=shape.expert_kind, fused_gate_up=fused), x, "shared_")


def _every(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """Llama 4: all tokens once for each expert, batched products, the shared expert, and the sum over the experts
    (transformers 5.23 models/llama4/modeling_llama4.py, Llama4TextMoe and Llama4TextExperts)."""
    tape, autocast_width = context.tape, context.kernels.autocast_width
    repeated = tape.new("chosen_hidden", x.width)
    tape.node((repeated,), (x,))
    routed = _weighted(tape, repeated, scores)
    tape.drop(repeated, scores)
    gate_up = experts.get("gate_up")
    if gate_up is not None and gate_up.quantized and not gate_up.adapted:
        produced = _one_by_one(tape, routed)
        return _summed(context, shape, x, routed, produced)
    both = ops.linear(
        tape, routed, experts.get("gate_up") or Parameter("w:experts", x.width), "chosen_inner*2", autocast_width
    )
    gate, up = ops.split(tape, both, ("chosen_inner", "chosen_inner"))
    active = activate(context, shape.activation, gate)
    inner = ops.multiply(tape, active, up)
    tape.drop(active)
    produced = ops.linear(
        tape, inner, experts.get("down") or Parameter("w:experts", x.width), "chosen_hidden", autocast_width
    )
    tape.drop(inner, both, gate, up)
    return _summed(context, shape, x, routed, produced)


def _one_by_one(tape: Tape, routed: Value) -> Value:
    """Quantised experts are linear layers of their own, run one after another, each into its rows of zeros (axolotl
    0.19.0 monkeypatch/models/llama4/modeling.py, Llama4TextExperts.forward): the activation keeps its input, the
    product its factors; what is written into rows copies the gradient of all of them to cut its own out."""
    width = routed.width
    found = tape.new("chosen_hidden", width)
    kept = [tape.new("chosen_inner", width) for _ in range(3 if tape.grad else 0)]
    written = (("expert_inner", width),) * (1 if tape.grad else 3)
    tape.spike(*written, ("expert_matrix", width), ("expert_hidden", width))
    inside = (("chosen_hidden", width), ("expert_inner", width), ("expert_inner", width), ("expert_matrix", width))
    tape.node((found,), (routed,), kept, inside)
    tape.drop(*kept)
    return found


def _summed(context: LayerContext, shape: Mlp, x: Value, routed: Value, produced: Value) -> Value:
    """The shared expert's output and the sum over the others'."""
    tape = context.tape
    shared = _shared(context, shape, x)
    summed = tape.new("hidden", produced.width)
    tape.node((summed,), (produced,))
    total = ops.add(tape, shared, summed)
    tape.drop(routed, produced, shared, summed)
    return total


def _route(context: LayerContext, roles: Roles, x: Value) -> Value:
    """Scores of the chosen experts: product, fp32 softmax (saved), top-k (its indexes saved), mostly cast back."""
    tape = context.tape
    traits = context.family.experts
    in_fp32 = traits.fp32_scores or (traits.fp32_router_product and not context.kernels.autocast_width)
    logits = ops.linear(
        tape, x, roles.router or Parameter("w:router", x.width), "routes", context.kernels.autocast_width
    )
    single = ops.cast(tape, logits, FP32_BYTES)
    probabilities = ops.unary_by_result(tape, single)
    tape.drop(single)
    chosen, indexes = tape.new("chosen", FP32_BYTES), tape.new("chosen", _INDEX)
    tape.node((chosen,), (probabilities,), (indexes,))
    found = ops.cast(tape, chosen, FP32_BYTES if in_fp32 else logits.width)
    tape.drop(chosen, indexes, probabilities, logits)
    return found


def _experts(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """`grouped_mm_experts_forward`: tokens sorted by expert, two grouped products, scores, order restored."""
    tape = context.tape
    order, rows = tape.new("chosen", _INDEX), tape.new("chosen", _INDEX)
    chosen = _gather(tape, x, "chosen_hidden", rows)
    sorted_scores = _gather(tape, scores, "chosen", order)
    held: list[Value] = []
    inner = _inner(context, shape, experts, chosen, held)
    produced = _product(context, inner, experts.get("down"), "chosen_hidden", held)
    tape.drop(inner)
    weighted = _weighted(tape, produced, sorted_scores)
    back = tape.new("chosen", _INDEX)
    restored = _gather(tape, weighted, "chosen_hidden", back)
    tape.drop(weighted)
    found = tape.new(x.extent, restored.width)
    tape.node((found,), (restored,))
    result = ops.cast(tape, found, x.width)
    tape.drop(found, restored, back, order, rows, chosen, sorted_scores, produced, *held)
    return result


def _inner(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], chosen: Value, held: list[Value]) -> Value:
    tape = context.tape
    if shape.expert_kind != "gated" or "gate_up" not in experts:
        wide = _product(context, chosen, experts.get("up"), "chosen_inner", held)
        active = activate(context, shape.activation, wide)
        tape.drop(wide)
        return active
    both = _product(context, chosen, experts["gate_up"], "chosen_inner*2", held)
    gate, up = ops.split(tape, both, ("chosen_inner", "chosen_inner"))
    if context.family.experts.clamps_gate:
        found = _clamped(tape, gate, up)
        tape.drop(both, gate, up)
        return found
    active = activate(context, shape.activation, gate)
    found = ops.multiply(tape, active, up)
    tape.drop(both, gate, up, active)
    return found


def _clamped(tape: Tape, gate: Value, up: Value) -> Value:
    """`(clamp(up) + 1) * gate * sigmoid(gate * alpha)` with a clamped gate (models/gpt_oss/modeling_gpt_oss.py)."""
    bounded = ops.unary(tape, gate)
    scaled = ops.scale(tape, bounded)
    weight = ops.unary_by_result(tape, scaled)
    tape.drop(scaled)
    active = ops.multiply(tape, bounded, weight)
    limited = ops.unary(tape, up)
    shifted = ops.scale(tape, limited)
    found = ops.multiply(tape, shifted, active)
    tape.drop(bounded, weight, active, limited, shifted)
    return found


def _product(context: LayerContext, x: Value, weight: Parameter | None, extent: str, held: list[Value]) -> Value:
    """`held`: stacks that experts unpacked, which stay until they are done; or the whole weight that the code has in a
    name until it gives that to another (`selected_weights`)."""
    given = weight or Parameter("w:experts", x.width)
    if given.quantized and context.kernels.dequantized_width:
        return _unpacked(context, x, given, extent, held)
    if context.kernels.experts != "copied" or given.adapted:
        return grouped(context.tape, x, weight, extent, held)
    return _copied(context.tape, x, given, extent)


def _unpacked(context: LayerContext, x: Value, packed: Parameter, extent: str, held: list[Value]) -> Value:
    """All experts of a packed stack, unpacked where the parameter is read and cached until the experts are done; the
    product saves them for its input's gradient (bitsandbytes 0.50.2 nn/parametrize.py:40 and 133, axolotl 0.19.0
    monkeypatch/moe_quant.py:24). 8 bits are multiplied twice, into fp32 (bitsandbytes 0.50.2 _ops.py:121)."""
    tape, width = context.tape, context.kernels.dequantized_width
    if packed.width:
        tape.spike((packed.extent, width), (packed.extent, width))
    stack = tape.new(packed.extent, width)
    held.append(stack)
    given = ops.cast(tape, x, width)
    found = tape.new(extent, width)
    tape.node((found,), (given,), (stack,))
    tape.drop(given)
    return found


def _copied(tape: Tape, x: Value, held: Parameter, extent: str) -> Value:
    """`x @ weight[index]`, expert by expert: with a tensor for an index that is a copy, which the product saves; the
    gradient is scattered into zeros of all experts, added to the sum of those before
    (models/gpt_oss/modeling_gpt_oss.py:103, v4.55.4)."""
    given = ops.cast(tape, x, held.width or x.width)
    copy = tape.new(held.extent, held.width)
    found = tape.new(extent, given.width)
    gradients = (ParameterGradient(held.extent, given.width, held.width),) if held.trainable else ()
    scattered = ((held.extent, given.width),) if held.trainable else ()
    tape.node((found,), (given,), (given, copy) if held.trainable else (copy,), scattered, weights=gradients)
    tape.drop(given, copy)
    return found


def grouped(tape: Tape, x: Value, weight: Parameter | None, extent: str, named: list[Value]) -> Value:
    """`grouped_mm`: not touched by autocast, the input takes the weights' dtype."""
    held = weight or Parameter("w:experts", x.width)
    given = ops.cast(tape, x, held.width or x.width)
    if held.adapted:
        return _folded(tape, given, held, extent, named)
    found = tape.new(extent, given.width)
    gradients = (ParameterGradient(held.extent, given.width, held.width),) if held.trainable else ()
    tape.node((found,), (given,), (given,) if held.trainable else (), weights=gradients)
    tape.drop(given)
    return found


def _folded(tape: Tape, given: Value, held: Parameter, extent: str, named: list[Value]) -> Value:
    """With LoRA on stacked experts the product reads W + B A, made whole (peft 0.21.2 _LoraFactorsProxy)."""
    whole = tape.new(held.extent, held.width, requires_grad=True)
    gradients = tuple(
        ParameterGradient(held.extent + branch, held.width, ops.FP32_BYTES) for branch in (".lora_A", ".lora_B")
    )
    tape.node((whole,), (), weights=gradients)
    tape.drop(*named)
    named[:] = [whole]
    found = tape.new(extent, given.width)
    tape.node((found,), (given, whole), (given, whole))
    tape.drop(given)
    return found


def _weighted(tape: Tape, produced: Value, scores: Value) -> Value:
    """Rows times their score; the scores' gradient is a full product until the rows' has its dtype, then its sum
    (torch/csrc/autograd/engine.cpp, validate_outputs: gradients one after the other)."""
    width = max(produced.width, scores.width)
    scores.storage.references += 1
    spread = Value(scores.storage, "chosen_hidden", width, scores.requires_grad)
    tape.node((spread,), (scores,))
    found = tape.new("chosen_hidden", width)
    saved = [value for value, other in ((produced, spread), (spread, produced)) if other.requires_grad]
    tape.node((found,), (produced, spread), saved, gradient_width=width)
    tape.drop(spread)
    return found


def _gather(tape: Tape, x: Value, extent: str, indexes: Value) -> Value:
    """`x[indexes]`; its gradient is scattered into zeros, out of place."""
    found = tape.new(extent, x.width)
    tape.node((found,), (x,), (indexes,), ((x.extent, x.width),))
    return found
