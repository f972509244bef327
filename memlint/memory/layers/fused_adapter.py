"""Adapters that run with their projection in one autograd function: Axolotl's LoRA kernels, and Unsloth's.

Read in axolotl 0.19.0 kernels/lora.py (LoRA_QKV :821, LoRA_O :1623, LoRA_MLP :283) and monkeypatch/lora_kernels.py,
not run: their kernels need a GPU. memlint/simulation/fused_adapters.py is a twin without kernels. A group keeps its
input once, where PEFT keeps a copy in the adapter's dtype for each projection, and its adapters in the compute dtype;
the MLP keeps gate and up, and makes their product again in the backward. Unsloth's functions (2025.9.11
kernels/fast_lora.py) keep the same: run on fake tensors, with stand-ins for Triton's kernels, a layer of Llama 3.1 8B
on a 4-bit base takes 118 KiB a token in the forward and 162 in the backward, as here; until 2025.3 28 more in the
latter.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.tape import ParameterGradient, Value
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.parameter_roles import Linear

_QUERY, *_FOLLOWING = ("query", "key", "value")
_MLP = ("gate", "up", "down")
_GROUPS = {"qkv": (_QUERY, *_FOLLOWING), "o": ("output",), "mlp": _MLP}
_Sizes = tuple[tuple[str, int], ...]


def with_fused(linears: dict[str, Linear], kernels: KernelConfig, shape: DecoderLayer) -> dict[str, Linear]:
    """`linears` with those marked that a kernel runs: a group is patched where all of it has plain adapters."""
    found = dict(linears)
    for group in kernels.fused_adapters:
        parts = _GROUPS[group]
        if _has_code(group, shape) and all(_is_adapted(linears.get(part)) for part in parts):
            found.update((part, linears[part]._replace(fused=True)) for part in parts)
    return found


def _has_code(group: str, shape: DecoderLayer) -> bool:
    """Which modules find_self_attn_in_layer and find_mlp_in_layer know; others warn and run PEFT's code."""
    if group != "mlp":
        return shape.attention.kind == "attention"
    mlp = shape.mlp
    return mlp.kind == "gated" and not mlp.fused_gate_up and ("gelu" in mlp.activation or mlp.activation == "silu")


def _is_adapted(linear: Linear | None) -> bool:
    return linear is not None and linear.down is not None and linear.magnitude is None


def fused_projection(context: LayerContext, part: str, x: Value, extent: str) -> Value:
    """One of query, key and value, which come of one call, or the output projection."""
    if part in context.computed_ahead:
        return context.computed_ahead.pop(part)
    parts = _GROUPS["qkv"] if part == _QUERY else (part,)
    extents = (extent, *parts[1:])
    inputs = _inputs(context, context.linears[part], x)
    found = tuple(_output(context, name, size, inputs[0]) for name, size in zip(parts, extents))
    _record(context, parts, inputs, found, (), ())
    context.computed_ahead.update(zip(parts[1:], found[1:]))
    return found[0]


def fused_mlp(context: LayerContext, x: Value, extent: str) -> Value:
    """gate, up, their product and down: gradients of gate and up stand where they stood (kernels/swiglu.py:162)."""
    tape = context.tape
    inputs = _inputs(context, context.linears["gate"], x)
    gate, up = (_output(context, part, extent, inputs[0]) for part in _MLP[:2])
    product = tape.new(extent, inputs[0].width)
    found = _output(context, "down", "hidden", product)
    _record(context, _MLP, inputs, (found,), (gate, up), ((extent, product.width),))
    tape.drop(gate, up, product)
    return found


def _inputs(context: LayerContext, linear: Linear, x: Value) -> tuple[Value, ...]:
    """The input as the products read it and, with dropout, what adapters read: one for the whole group."""
    given = ops.cast(context.tape, x, context.kernels.autocast_width or x.width)
    return (given, ops.dropout(context.tape, given)) if linear.dropout else (given,)


def _output(context: LayerContext, part: str, extent: str, x: Value) -> Value:
    """matmul_lora (kernels/lora.py:226): W whole while its product runs, then the adapter's factors as they compute."""
    found = context.tape.new(extent, x.width)
    context.tape.spike(*_whole(context, part, x.width))
    added = ((extent, x.width),) if context.kernels.adapter_output_is_separate else ()
    context.tape.spike(*_factors(context, part, x.width), (context.linears[part].rank, x.width), *added)
    return found


def _whole(context: LayerContext, part: str, width: int) -> _Sizes:
    weight = context.linears[part].weight
    return ((weight.extent, width),) if weight.quantized else ()


def _factors(context: LayerContext, part: str, width: int) -> _Sizes:
    """The copies of A and B in the compute dtype."""
    linear = context.linears[part]
    assert linear.down is not None and linear.up is not None
    return tuple((weight.extent, width) for weight in (linear.down, linear.up) if weight.width != width)


def _record(
    context: LayerContext,
    parts: tuple[str, ...],
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    kept: tuple[Value, ...],
    remade: _Sizes,
) -> None:
    """The function's node. With dropout the adapters' share of the input's gradient comes last (dX_drop), when no base
    weight is whole any more."""
    tape, width = context.tape, inputs[0].width
    casts = tuple(tape.new(*size) for part in parts for size in _factors(context, part, width))
    ranks = tuple((context.linears[part].rank, width) for part in (*parts, parts[-1]))
    whole = _whole(context, parts[0], width)
    added = remade or ((inputs[0].extent, width),)
    late = tuple((value.extent, width) for value in inputs[1:] if whole and value.requires_grad)
    tape.node(
        outputs,
        inputs,
        (*inputs, *kept, *casts),
        (*remade, *ranks, *whole, *(added if context.kernels.adapter_output_is_separate else ())),
        weights=tuple(gradient for part in parts for gradient in _gradients(context.linears[part], width)),
        after_temporaries=late,
    )
    tape.drop(*inputs, *casts)


def _gradients(linear: Linear, width: int) -> tuple[ParameterGradient, ...]:
    assert linear.down is not None and linear.up is not None
    return tuple(ParameterGradient(weight.extent, width, weight.width) for weight in (linear.down, linear.up))
