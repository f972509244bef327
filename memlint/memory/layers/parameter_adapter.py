"""Weights that PEFT adapts as parameters (stacked experts, routers): the product reads W + B A, a tensor of its own."""

from __future__ import annotations

from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value

FACTORS = (".lora_A", ".lora_B")


def with_adapter(tape: Tape, weight: Parameter, autocast_width: int = 0) -> Value:
    """W + B A in the dtype of W. The factors are cast to it, and these copies are saved (peft 0.21.2
    tuners/lora/layer.py:2513, ParamWrapper.get_delta_factors; of a router, whose factors autocast casts, :2530)."""
    width = autocast_width or weight.width
    casts = weight.adapter_width != width
    factors = [tape.new(weight.extent + factor, width) for factor in FACTORS if casts]
    merged = tape.new(weight.extent, weight.width, requires_grad=True)
    gradients = tuple(ParameterGradient(weight.extent + factor, width, weight.adapter_width) for factor in FACTORS)
    tape.node((merged,), (), factors, weights=gradients)
    tape.drop(*factors)
    return merged
