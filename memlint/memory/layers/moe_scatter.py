"""Stacked experts in ScatterMoE's kernels, which gather tokens while they multiply.

Source: axolotl 0.19.0 integrations/kernels/libs/scattermoe_lora: experts.py:358 (scattermoe_experts_forward),
parallel_experts.py:74 (ParallelLinear), parallel_linear_lora.py:43 (ScatterMoELoRA). Not counted: what Triton's kernels
try while they tune themselves, and tensors of the adapters' rank.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import Mlp
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Value
from memlint.memory.layers.activation_functions import activate
from memlint.memory.layers.kernel_config import LayerContext

_INDEX = 8  # int64


def scattered_experts(
    context: LayerContext, shape: Mlp, experts: dict[str, Parameter], x: Value, scores: Value
) -> Value:
    """Gate and up over tokens in any order into rows sorted by expert; down back into the tokens' order.

    Gathered tokens exist in the backward alone, and the weighted sum over a token's experts is part of the second
    kernel. Weights that are not adapted get a gradient even where they are frozen (parallel_experts.py:185).
    """
    tape = context.tape
    expert_order, row_order = tape.new("chosen", _INDEX), tape.new("chosen", _INDEX)
    routing = ops.cast(tape, scores, x.width)
    gate_up, down = (experts.get(name) or Parameter("w:experts", x.width) for name in ("gate_up", "down"))
    unpacked = [one for one in (_unpacked(context, gate_up), _unpacked(context, down)) if one is not None]
    gate_and_up = _gathered(context, x, gate_up, (x, expert_order, row_order, *_kept(unpacked, 0, gate_up)))
    gate, up = ops.split(tape, gate_and_up, ("chosen_inner", "chosen_inner"))
    active = activate(context, shape.activation, gate)
    inner = ops.multiply(tape, active, up)
    tape.drop(gate, up, active)
    found = _combined(context, inner, routing, down, (row_order, *_kept(unpacked, 1, down)))
    # `gates_h` is a variable of the forward until it returns
    tape.drop(gate_and_up, inner, routing, expert_order, row_order, *unpacked)
    return found


def _unpacked(context: LayerContext, weight: Parameter) -> Value | None:
    """All experts of a quantised stack, in one pass (selective_dequant.py:141, selective_dequant_nf4_triton)."""
    if not weight.quantized:
        return None
    return context.tape.new(weight.extent, context.kernels.dequantized_width)


def _kept(unpacked: list[Value], index: int, weight: Parameter) -> tuple[Value, ...]:
    """Unpacked weights that the backward reads. Adapted ones are unpacked again (parallel_linear_lora.py:152)."""
    return (unpacked[index],) if unpacked and not weight.adapter_width else ()


def _gathered(context: LayerContext, x: Value, weight: Parameter, saved: tuple[Value, ...]) -> Value:
    """The first product. Its backward gathers the tokens and writes their gradient over them."""
    tape = context.tape
    found = tape.new("chosen_inner*2", x.width)
    rows = ("chosen_hidden", x.width)
    if not weight.adapter_width:
        temporaries = (rows, *_gradient_of_frozen(weight, x.width))
        tape.node((found,), (x,), saved, temporaries, weights=_gradients(weight, x.width))
        return found
    # what the adapters add to the gradient, and the rows that it is added to (parallel_linear_lora.py:424)
    temporaries = (rows, rows, rows, *_unpacked_again(context, weight))
    tape.node(
        (found,), (x,), saved, temporaries, weights=_factor_gradients(weight), after_temporaries=((x.extent, x.width),)
    )
    return found


def _combined(
    context: LayerContext, inner: Value, routing: Value, weight: Parameter, saved: tuple[Value, ...]
) -> Value:
    """The second product and the weighted sum over each token's experts. Its rows are saved, and the backward writes
    their gradient over them."""
    tape = context.tape
    produced = tape.new("chosen_hidden", inner.width)
    found = tape.new("hidden", inner.width)
    if weight.adapter_width:
        temporaries = (("chosen_inner", inner.width), *_unpacked_again(context, weight))
        gradients = _factor_gradients(weight)
    else:
        temporaries, gradients = _gradient_of_frozen(weight, inner.width), _gradients(weight, inner.width)
    tape.node((found,), (inner, routing), (inner, routing, produced, *saved), temporaries, weights=gradients)
    tape.drop(produced)
    return found


def _gradients(weight: Parameter, width: int) -> tuple[ParameterGradient, ...]:
    return (ParameterGradient(weight.extent, width, weight.width),) if weight.trainable else ()


def _gradient_of_frozen(weight: Parameter, width: int) -> tuple[tuple[str, int], ...]:
    """It is computed and thrown away."""
    return () if weight.trainable else ((weight.extent, width),)


def _factor_gradients(weight: Parameter) -> tuple[ParameterGradient, ...]:
    width = weight.width or ops.FP32_BYTES
    return tuple(ParameterGradient(weight.extent + branch, width, ops.FP32_BYTES) for branch in (".lora_A", ".lora_B"))


def _unpacked_again(context: LayerContext, weight: Parameter) -> tuple[tuple[str, int], ...]:
    return ((weight.extent, context.kernels.dequantized_width),) if weight.quantized else ()
