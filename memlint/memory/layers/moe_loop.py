"""Experts held as linears and run one after another, as transformers did before version 5.

Source: transformers 4.48 models/mixtral/modeling_mixtral.py:118-141 (MixtralSparseMoeBlock.forward); the other families
of that time have the same loop. Tokens count as spread evenly over the experts.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.parameter_adapter import FACTORS
from memlint.memory.state.parameter_roles import Linear

_INDEX = 8  # int64


def experts_in_loop(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """`final.index_add_(0, rows, expert(x[rows]) * score)`, expert by expert.

    The backward begins with the last expert, while the saved tensors of all others are alive. So they are one
    node that saves their tensors, and the last expert is recorded operation by operation.
    """
    tape = context.tape
    autocast_width = context.kernels.autocast_width or x.width
    total = _other_experts(context, shape, experts, x, autocast_width)
    rows = tape.new("expert", _INDEX)
    chosen = tape.new("expert_hidden", x.width)
    tape.node((chosen,), (x,), (rows,), (("hidden", x.width),))
    produced = _expert(context, shape, experts, chosen, autocast_width)
    score = tape.new("expert", scores.width)
    tape.node((score,), (scores,), (rows,), (("chosen", scores.width),))
    weighted = ops.multiply(tape, produced, score)
    tape.drop(produced, score, chosen)
    sum_view = tape.view(total)
    tape.node((sum_view,), (weighted,), (rows,))
    tape.drop(weighted, rows, total)
    return sum_view


def _other_experts(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, autocast_width: int
) -> Value:
    """The zeros that results are added to, as one node that saves the tensors of all experts but the last."""
    tape = context.tape
    trains = any(weight.trainable for weight in experts.values())
    entry, down = _adapted(context, "gate_up") or _adapted(context, "up"), _adapted(context, "down")
    inner = (3 if shape.expert_kind == "gated" else 1) + (trains or _saves_input(context, down, autocast_width))
    saved = [tape.new("others_inner", autocast_width) for _ in range(inner)]
    hidden = 1 + (trains or _saves_input(context, entry, autocast_width))
    saved += [tape.new("others_hidden", autocast_width) for _ in range(hidden)]
    saved += _kept_by_adapters(context, entry, "others_hidden", 1 + (shape.expert_kind == "gated"), autocast_width)
    saved += _kept_by_adapters(context, down, "others_inner", 1, autocast_width)
    gradients = tuple(
        ParameterGradient(one.extent, autocast_width, one.width) for one in experts.values() if one.trainable
    )
    found = tape.new("hidden", x.width)
    tape.node((found,), (x,), saved, (("expert_hidden", autocast_width),), weights=gradients)
    tape.drop(*saved)
    return found


def _adapted(context: LayerContext, part: str) -> Linear | None:
    """The adapted linear layers of that part of the experts."""
    return context.linears.get("expert_" + part)


def _saves_input(context: LayerContext, linear: Linear | None, width: int) -> bool:
    """Whether adapters save the input of their layers itself, which all layers with that input share."""
    return linear is not None and not linear.dropout and _input_width(context, linear, width) == width


def _kept_by_adapters(context: LayerContext, linear: Linear | None, extent: str, count: int, width: int) -> list[Value]:
    """What `count` adapted layers of each other expert save beside their input: the mask and the copy after dropout or
    casts, the low-rank activation, and the factors as autocast casts them (projection.py, _with_lora)."""
    if linear is None or linear.down is None:
        return []
    tape, entering = context.tape, _input_width(context, linear, width)
    product = context.kernels.autocast_width or entering
    sizes = (1, product) if linear.dropout else () if _saves_input(context, linear, width) else (product,)
    found = [tape.new("others_" + linear.rank, product)]
    found += [tape.new(extent, size) for _ in range(count) for size in sizes]
    if linear.down.width != product:
        found += [tape.new(linear.weight.extent + factor, product) for factor in FACTORS]
    return found


def _input_width(context: LayerContext, linear: Linear, width: int) -> int:
    """Bytes of an element of an adapter's input before dropout: cast to the adapter's dtype, but not over bitsandbytes'
    layers under autocast."""
    assert linear.down is not None
    return linear.down.width if linear.casts or not context.kernels.autocast_width else width


def _expert(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], chosen: Value, autocast_width: int
) -> Value:
    tape = context.tape
    quantized = any(weight.quantized for weight in experts.values())
    trains = any(weight.trainable for weight in experts.values())
    entry = "gate_up" if shape.expert_kind == "gated" else "up"
    operand = ops.cast(tape, chosen, autocast_width)
    expanded = _linear(context, operand, "expert_inner", quantized, trains, _adapted(context, entry))
    active = activate(context, shape.activation, expanded)
    tape.drop(expanded)
    if shape.expert_kind == "gated":
        up = _linear(context, operand, "expert_inner", quantized, trains, _adapted(context, entry), is_second=True)
        product = ops.multiply(tape, active, up)
        tape.drop(active, up)
        active = product
    found = _linear(context, active, "expert_hidden", quantized, trains, _adapted(context, "down"))
    tape.drop(active, operand)
    return found


def _linear(
    context: LayerContext,
    x: Value,
    extent: str,
    quantized: bool,
    trains: bool,
    linear: Linear | None,
    is_second: bool = False,
) -> Value:
    """`is_second`: the gradients of its factors count with those of the layer before, which stand in one pair."""
    tape = context.tape
    found = tape.new(extent, x.width)
    dequantized = (("expert_matrix", x.width),) if quantized else ()
    if dequantized:
        tape.spike(*dequantized)
    tape.node((found,), (x,), (x,) if trains else (), dequantized)
    return found if linear is None else _plus_adapter(context, linear, x, found, is_second)


def _plus_adapter(context: LayerContext, linear: Linear, x: Value, result: Value, is_second: bool) -> Value:
    """`result + B(A(dropout(x))) * scaling`, as `_with_lora` of projection.py records it for other layers."""
    assert linear.down is not None
    tape, adapter_width = context.tape, linear.down.width
    entering = ops.cast(tape, x, _input_width(context, linear, x.width))
    after_dropout = ops.dropout(tape, entering) if linear.dropout else tape.view(entering)
    operand = ops.cast(tape, after_dropout, context.kernels.autocast_width or entering.width)
    tape.drop(entering, after_dropout)
    low = tape.new(linear.rank, operand.width)
    gradients = tuple(
        ParameterGradient(linear.weight.extent + factor, operand.width, adapter_width) for factor in FACTORS
    )
    tape.node((low,), (operand,), (operand,), weights=() if is_second else gradients)
    produced = tape.new(result.extent, operand.width)
    tape.node((produced,), (low,), (low,))
    tape.drop(operand, low)
    scaled = ops.scale(tape, produced)
    summed = ops.add(tape, result, scaled)
    found = ops.cast(tape, summed, result.width)
    tape.drop(produced, scaled, result, summed)
    return found
