"""The scores of a mixture's experts (transformers 5.23 models/*/modeling_*.py, classes with Router in their names)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.ops import FP32_BYTES
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Storage, Tape, Value
from memlint.memory.layers.kernel_config import LayerContext
from memlint.memory.layers.parameter_adapter import with_adapter
from memlint.memory.layers.projection import project
from memlint.memory.state.parameter_roles import ROUTER, Roles

_INDEX = 8  # int64


def route(context: LayerContext, roles: Roles, x: Value) -> Value:
    """Scores of the top-k experts: a product, softmax or sigmoid (saved), top-k (its indexes are saved), a cast."""
    tape, traits = context.tape, context.family.experts.router
    logits = _product(context, roles, x)
    scores = _of_chosen(context, logits) if traits.chosen_first else _of_all(context, logits)
    widths = {"scores": scores.width, "product": logits.width, "input": x.width}
    width = FP32_BYTES if traits.divides and context.kernels.autocast_width else widths[traits.result]
    found = ops.cast(tape, scores, width)
    tape.drop(scores, logits)
    return found


def _of_all(context: LayerContext, logits: Value) -> Value:
    """Scores of all experts, then those of the chosen ones."""
    tape = context.tape
    operand = ops.cast(tape, logits, _score_width(context, logits))
    scores = ops.unary_by_result(tape, operand)
    chosen, indexes = tape.new("chosen", scores.width), tape.new("chosen", _INDEX)
    tape.node((chosen,), (scores,), (indexes,))
    tape.drop(operand, indexes, scores)
    return chosen


def _of_chosen(context: LayerContext, logits: Value) -> Value:
    """The chosen experts, then their scores."""
    tape = context.tape
    chosen, indexes = tape.new("chosen", logits.width), tape.new("chosen", _INDEX)
    tape.node((chosen,), (logits,), (indexes,))
    operand = ops.cast(tape, chosen, _score_width(context, logits))
    scores = ops.unary_by_result(tape, operand)
    tape.drop(operand, indexes, chosen)
    return scores


def _score_width(context: LayerContext, logits: Value) -> int:
    widths = {"fp32": FP32_BYTES, "product": logits.width}
    widths["autocast"] = FP32_BYTES if context.kernels.autocast_width else logits.width
    return widths[context.family.experts.router.scores]


def _product(context: LayerContext, roles: Roles, x: Value) -> Value:
    """`x W^T`, or both in fp32."""
    tape, traits = context.tape, context.family.experts.router
    autocast_width = 0 if traits.leaves_autocast else context.kernels.autocast_width
    if ROUTER in context.linears:
        operand = ops.cast(tape, x, FP32_BYTES if traits.fp32_product else x.width)
        found = project(context, ROUTER, operand, "routes")
        tape.drop(operand)
        return found
    weight = roles.router or Parameter("w:router", x.width)
    if weight.adapter_width:
        return _of_adapted(context, weight, x, autocast_width)
    if not traits.fp32_product or weight.quantized:
        return ops.linear(tape, x, weight, "routes", autocast_width)
    return _in_fp32(tape, weight, x, autocast_width)


def _in_fp32(tape: Tape, weight: Parameter, x: Value, autocast_width: int) -> Value:
    """`x.float() W.float()^T`. Autocast casts both back, where it is on: copies that it does not cache, since the cast
    weight is no parameter."""
    in_fp32 = ops.cast(tape, x, FP32_BYTES)
    if weight.width == FP32_BYTES:
        found = ops.linear(tape, in_fp32, weight, "routes", autocast_width)
        tape.drop(in_fp32)
        return found
    width = autocast_width or FP32_BYTES
    operand = ops.cast(tape, in_fp32, width)
    tape.drop(in_fp32)
    copy = tape.new(weight.extent, width)
    found = _multiplied(tape, operand, copy, weight)
    tape.drop(operand, copy)
    return found


def _of_adapted(context: LayerContext, weight: Parameter, x: Value, autocast_width: int) -> Value:
    """`x (W + B A)^T`, which saves both factors."""
    tape, traits = context.tape, context.family.experts.router
    merged = with_adapter(tape, weight, context.kernels.autocast_width)
    width = autocast_width or (FP32_BYTES if traits.fp32_product else x.width)
    in_own_dtype = ops.cast(tape, x, FP32_BYTES if traits.fp32_product else x.width)
    operand, factor = ops.cast(tape, in_own_dtype, width), ops.cast(tape, merged, width)
    found = tape.new("routes", width)
    tape.node((found,), (operand, factor), (operand, factor))
    tape.drop(in_own_dtype, operand, factor, merged)
    return found


def _multiplied(tape: Tape, x: Value, copy: Value, weight: Parameter) -> Value:
    """The product with a copy of the weight. The copy is saved for the input's gradient, the input for the weight's."""
    found = tape.new("routes", x.width)
    saved: list[Value | Storage] = [x] if weight.trainable else []
    gradients = (ParameterGradient(weight.extent, x.width, weight.width),) if weight.trainable else ()
    tape.node((found,), (x,), (*saved, *((copy,) if x.requires_grad else ())), weights=gradients)
    return found
