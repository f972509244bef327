"""Adapters that run with their projection in one autograd function: Axolotl's LoRA kernels, and Unsloth's.

Read in axolotl 0.19.0 kernels/lora.py (LoRA_QKV :821, LoRA_O :1623, LoRA_MLP :283) and monkeypatch/lora_kernels.py,
not run: their kernels need a GPU. memlint/simulation/fused_adapters.py does the same without kernels. A group saves its
input once, where PEFT saves a copy in the adapter's dtype for each projection, and it saves its adapters in the compute
dtype. The MLP saves gate and up, and computes their product again in the backward. Unsloth's functions (2025.9.11
kernels/fast_lora.py) keep the same: run on fake tensors, with stand-ins for Triton's kernels, a layer of Llama 3.1 8B
on a 4-bit base takes 118 KiB a token in the forward and 162 in the backward, as here; until 2025.3 28 more in the
latter.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.architectures.model import DecoderLayer
from memlint.memory.autograd.tape import ParameterGradient, Value
from memlint.memory.layers.kernel_config import KernelConfig, LayerContext
from memlint.memory.state.parameter_roles import Linear

_QUERY, *_FOLLOWING = ("query", "key", "value")
_MLP = ("gate", "up", "down")
_GROUPS = {"qkv": (_QUERY, *_FOLLOWING), "o": ("output",), "mlp": _MLP}
_Sizes = tuple[tuple[str, int], ...]


def mark_fused(linears: dict[str, Linear], kernels: KernelConfig, shape: DecoderLayer) -> dict[str, Linear]:
    """`linears` with `fused` set for the groups that a kernel runs: those whose projections all have plain LoRA."""
    found = dict(linears)
    for group in kernels.fused_adapters:
        parts = _GROUPS[group]
        if _is_patched(group, shape) and all(_is_adapted(linears.get(part)) for part in parts):
            found.update((part, linears[part]._replace(fused=True)) for part in parts)
    return found


def _is_patched(group: str, shape: DecoderLayer) -> bool:
    """Whether Axolotl patches this group: find_self_attn_in_layer and find_mlp_in_layer know its modules. Others run
    PEFT's code, with a warning."""
    if group != "mlp":
        return shape.attention.kind == "attention"
    mlp = shape.mlp
    return mlp.kind == "gated" and not mlp.fused_gate_up and ("gelu" in mlp.activation or mlp.activation == "silu")


def _is_adapted(linear: Linear | None) -> bool:
    return linear is not None and linear.down is not None and linear.magnitude is None


def fused_projection(context: LayerContext, part: str, x: Value, extent: str) -> Value:
    """One of query, key and value, which one call computes, or the output projection."""
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
    """The gated MLP. Gradients of gate and up are written over gate and up (kernels/swiglu.py:162)."""
    tape = context.tape
    inputs = _inputs(context, context.linears["gate"], x)
    gate, up = (_output(context, part, extent, inputs[0]) for part in _MLP[:2])
    product = tape.new(extent, inputs[0].width)
    found = _output(context, "down", "hidden", product)
    _record(context, _MLP, inputs, (found,), (gate, up), ((extent, product.width),))
    tape.drop(gate, up, product)
    return found


def _inputs(context: LayerContext, linear: Linear, x: Value) -> tuple[Value, ...]:
    """The group's input in the compute dtype and, with dropout, the adapters' input."""
    cast_input = ops.cast(context.tape, x, context.kernels.autocast_width or x.width)
    return (cast_input, ops.dropout(context.tape, cast_input)) if linear.dropout else (cast_input,)


def _output(context: LayerContext, part: str, extent: str, x: Value) -> Value:
    """matmul_lora (kernels/lora.py:226): the dequantised W during its product, then the adapter's cast factors."""
    found = context.tape.new(extent, x.width)
    context.tape.spike(*_dequantized_weight(context, part, x.width))
    adapter_output = ((extent, x.width),) if context.kernels.adapter_output_is_separate else ()
    context.tape.spike(*_cast_factors(context, part, x.width), (context.linears[part].rank, x.width), *adapter_output)
    return found


def _dequantized_weight(context: LayerContext, part: str, width: int) -> _Sizes:
    weight = context.linears[part].weight
    return ((weight.extent, width),) if weight.quantized else ()


def _cast_factors(context: LayerContext, part: str, width: int) -> _Sizes:
    """The copies of A and B in the compute dtype."""
    linear = context.linears[part]
    assert linear.down is not None and linear.up is not None
    return tuple((weight.extent, width) for weight in (linear.down, linear.up) if weight.width != width)


def _record(
    context: LayerContext,
    parts: tuple[str, ...],
    inputs: tuple[Value, ...],
    outputs: tuple[Value, ...],
    saved: tuple[Value, ...],
    recomputed: _Sizes,
) -> None:
    """Record the function's node. With dropout the adapters' part of the input's gradient is computed last (dX_drop),
    when no base weight is dequantised any more."""
    tape, width = context.tape, inputs[0].width
    casts = tuple(tape.new(*size) for part in parts for size in _cast_factors(context, part, width))
    low_rank = tuple((context.linears[part].rank, width) for part in (*parts, parts[-1]))
    dequantized = _dequantized_weight(context, parts[0], width)
    adapter_output = recomputed or ((inputs[0].extent, width),)
    input_gradient = tuple((value.extent, width) for value in inputs[1:] if dequantized and value.requires_grad)
    tape.node(
        outputs,
        inputs,
        (*inputs, *saved, *casts),
        (*recomputed, *low_rank, *dequantized, *(adapter_output if context.kernels.adapter_output_is_separate else ())),
        weights=tuple(gradient for part in parts for gradient in _gradients(context.linears[part], width)),
        after_temporaries=input_gradient,
    )
    tape.drop(*inputs, *casts)


def _gradients(linear: Linear, width: int) -> tuple[ParameterGradient, ...]:
    assert linear.down is not None and linear.up is not None
    return tuple(ParameterGradient(weight.extent, width, weight.width) for weight in (linear.down, linear.up))
