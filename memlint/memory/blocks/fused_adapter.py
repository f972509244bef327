"""Adapters that run with their projection in one autograd function: Axolotl's LoRA kernels.

Read in axolotl 0.19.0 kernels/lora.py (LoRA_MLP, LoRA_QKV, LoRA_O) and monkeypatch/lora_kernels.py, not run: their
kernels need a GPU. They keep their input once, where PEFT keeps a copy in the adapter's dtype for each projection, and
make the product of gate and up again in the backward.
"""

from __future__ import annotations

import memlint.memory.ops as ops
from memlint.architectures.model import Layer
from memlint.memory.blocks.regime import Context, Regime
from memlint.memory.roles import Linear
from memlint.memory.tape import Value, WeightGradient

_GROUPS = {"qkv": ("query", "key", "value"), "o": ("output",), "mlp": ("gate", "up", "down")}


def with_fused(linears: dict[str, Linear], regime: Regime, shape: Layer) -> dict[str, Linear]:
    """`linears` with those marked that a kernel runs: a group is patched where all of it has plain adapters."""
    found = dict(linears)
    for group in regime.fused_adapters:
        parts = _GROUPS[group]
        if _has_code(group, shape) and all(_is_adapted(linears.get(part)) for part in parts):
            found.update((part, linears[part]._replace(fused=_keeps(part))) for part in parts)
    return found


def _has_code(group: str, shape: Layer) -> bool:
    """Which modules find_self_attn_in_layer and find_mlp_in_layer know; others warn and run PEFT's code."""
    if group != "mlp":
        return shape.attention.kind == "attention"
    mlp = shape.mlp
    return mlp.kind == "gated" and not mlp.fused_gate_up and ("gelu" in mlp.activation or mlp.activation == "silu")


def _is_adapted(linear: Linear | None) -> bool:
    return linear is not None and linear.down is not None and linear.magnitude is None


def _keeps(part: str) -> str:
    return "nothing" if part == "down" else "input"


def fused_adapter(context: Context, linear: Linear, x: Value, extent: str) -> Value:
    """`W x + B(A(dropout(x))) * scaling` as one op; gradients of A and B in its backward (kernels/lora.py:225)."""
    assert linear.down is not None and linear.up is not None
    tape = context.tape
    given = ops.cast(tape, x, context.regime.half or x.width)
    dropped = _dropped(context, given) if linear.dropout and linear.fused == "input" else None
    found = tape.new(extent, given.width)
    whole = ((linear.weight.extent, given.width),) if linear.weight.quantized else ()
    if whole:
        tape.spike(*whole)
    both = (linear.down, linear.up)
    casts = tuple(tape.new(weight.extent, given.width) for weight in both if weight.width != given.width)
    inputs = (given,) if dropped is None else (given, dropped)
    gradients = tuple(WeightGradient(weight.extent, given.width, weight.width) for weight in both)
    tape.node((found,), inputs, (*(inputs if linear.fused == "input" else ()), *casts), whole, weights=gradients)
    tape.drop(given, *casts)
    if dropped is not None:
        tape.drop(dropped)
    return found


def _dropped(context: Context, x: Value) -> Value:
    """The input after dropout: one for all projections of a group, alive while one of them keeps it."""
    known = context.dropped
    if known is not None and known[0] is x.storage and known[1].storage.holders:
        known[1].storage.holders += 1
        return known[1]
    found = ops.dropout(context.tape, x)
    context.dropped = (x.storage, found)
    return found
