"""Experts held as linears and run one after another, as transformers did before version 5.

Source: transformers 4.48 models/mixtral/modeling_mixtral.py:118-141 (MixtralSparseMoeBlock.forward); the other families
of that time have the same loop. Tokens count as spread evenly over the experts.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.mlp import activate

_INDEX = 8  # int64


def experts_in_loop(context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value) -> Value:
    """`final.index_add_(0, rows, expert(x[rows]) * score)`, expert by expert.

    The backward begins with the last expert, while the saved tensors of all others are alive. So they are one
    node that saves their tensors, and the last expert is recorded operation by operation.
    """
    tape = context.tape
    autocast_width = context.kernels.autocast_width or x.width
    total = _other_experts(tape, shape, experts, x, autocast_width)
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


def _other_experts(tape: Tape, shape: Mlp, experts: dict[str, Parameter], x: Value, autocast_width: int) -> Value:
    """The zeros that results are added to, as one node that saves the tensors of all experts but the last."""
    trains = any(weight.trainable for weight in experts.values())
    inner = (3 if shape.expert_kind == "gated" else 1) + trains
    saved = [tape.new("others_inner", autocast_width) for _ in range(inner)]
    saved += [tape.new("others_hidden", autocast_width) for _ in range(1 + trains)]
    gradients = tuple(
        ParameterGradient(one.extent, autocast_width, one.width) for one in experts.values() if one.trainable
    )
    found = tape.new("hidden", x.width)
    tape.node((found,), (x,), saved, (("expert_hidden", autocast_width),), weights=gradients)
    tape.drop(*saved)
    return found


def _expert(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], chosen: Value, autocast_width: int
) -> Value:
    tape = context.tape
    quantized = any(weight.quantized for weight in experts.values())
    trains = any(weight.trainable for weight in experts.values())
    operand = ops.cast(tape, chosen, autocast_width)
    expanded = _linear(tape, operand, "expert_inner", quantized, trains)
    active = activate(context, shape.activation, expanded)
    tape.drop(expanded)
    if shape.expert_kind == "gated":
        up = _linear(tape, operand, "expert_inner", quantized, trains)
        product = ops.multiply(tape, active, up)
        tape.drop(active, up)
        active = product
    found = _linear(tape, active, "expert_hidden", quantized, trains)
    tape.drop(active, operand)
    return found


def _linear(tape: Tape, x: Value, extent: str, quantized: bool, trains: bool) -> Value:
    found = tape.new(extent, x.width)
    dequantized = (("expert_matrix", x.width),) if quantized else ()
    if dequantized:
        tape.spike(*dequantized)
    tape.node((found,), (x,), (x,) if trains else (), dequantized)
    return found
