"""Stand-ins for Axolotl's LoRA kernels: what they allocate, save and overwrite.

axolotl 0.19.0 kernels/lora.py (LoRA_QKV, LoRA_O, LoRA_MLP), monkeypatch/lora_kernels.py (which layers get them).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from memlint.simulation.quantized import QuantizedLinear

QUERY_KEY_VALUE = ("q_proj", "k_proj", "v_proj")
OUTPUT = ("o_proj",)
MLP = ("gate_proj", "up_proj", "down_proj")


class _Projections(torch.autograd.Function):  # type: ignore[misc]
    """LoRA_QKV (kernels/lora.py:821) and LoRA_O (:1623): projections that share an input."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, after_dropout: torch.Tensor | None, bases: Sequence[Any], *factors: torch.Tensor
    ) -> Any:
        adapter_input = x if after_dropout is None else after_dropout
        pairs = list(zip(factors[::2], factors[1::2]))
        outputs = tuple(_with_lora(x, adapter_input, base, *pair) for base, pair in zip(bases, pairs))
        ctx.save_for_backward(x, adapter_input, *(factor.to(x.dtype) for factor in factors))
        ctx.bases, ctx.has_dropout = bases, after_dropout is not None
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, adapter_input, *factors = ctx.saved_tensors
        flat = [grad.reshape(-1, grad.shape[-1]) for grad in grads]
        low = [grad @ up for grad, up in zip(flat, factors[1::2])]
        factor_gradients = [_factor_gradients(adapter_input, *each) for each in zip(flat, low, factors[::2])]
        input_gradient = _input_gradient(ctx.bases, flat)
        dropout_gradient = _dropout_input_gradient(input_gradient, low, factors[::2], ctx.has_dropout)
        return (
            input_gradient.view(x.shape),
            _like(dropout_gradient, x),
            None,
            *(gradient for pair in factor_gradients for gradient in pair),
        )


class _Mlp(torch.autograd.Function):  # type: ignore[misc]
    """LoRA_MLP (kernels/lora.py:283): gradients of gate and up, and their product, overwrite gate and up."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, after_dropout: torch.Tensor | None, bases: Sequence[Any], *factors: torch.Tensor
    ) -> torch.Tensor:
        adapter_input = x if after_dropout is None else after_dropout
        pairs = list(zip(factors[::2], factors[1::2]))
        gate, up = (_with_lora(x, adapter_input, base, *pair) for base, pair in zip(bases[:2], pairs))
        product = torch.empty_like(gate)
        found = _with_lora(product, product, bases[2], *pairs[2])
        ctx.save_for_backward(x, adapter_input, gate, up, *(factor.to(x.dtype) for factor in factors))
        ctx.bases, ctx.has_dropout = bases, after_dropout is not None
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, adapter_input, gate, up, *factors = ctx.saved_tensors
        output_gradient = grads[0].reshape(-1, grads[0].shape[-1])
        weight = _dequantized(ctx.bases[2], output_gradient.dtype)
        product = (output_gradient @ weight).addmm_(output_gradient @ factors[5], factors[4])
        del weight
        low = [output_gradient @ factors[5]]
        factor_gradients = [_factor_gradients(product, output_gradient, low[0], factors[4])]
        flat = [part.reshape(-1, part.shape[-1]) for part in (gate, up)]
        low += [grad @ factor for grad, factor in zip(flat, factors[1:4:2])]
        factor_gradients += [_factor_gradients(adapter_input, *each) for each in zip(flat, low[1:], factors[:4:2])]
        input_gradient = _input_gradient(ctx.bases[:2], flat)
        dropout_gradient = _dropout_input_gradient(input_gradient, low[1:], factors[:4:2], ctx.has_dropout)
        factor_gradients = [*factor_gradients[1:], factor_gradients[0]]
        return (
            input_gradient.view(x.shape),
            _like(dropout_gradient, x),
            None,
            *(gradient for pair in factor_gradients for gradient in pair),
        )


def _like(gradient: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
    return None if gradient is None else gradient.view(x.shape)


def _with_lora(
    x: torch.Tensor, adapter_input: torch.Tensor, base: Any, down: torch.Tensor, up: torch.Tensor
) -> torch.Tensor:
    """kernels/lora.py:226, matmul_lora."""
    flat = x.view(-1, x.shape[-1])
    weight = _dequantized(base, x.dtype)
    out = flat @ weight.t()
    del weight
    down, up = down.t().to(x.dtype), up.t().to(x.dtype)
    out.addmm_(adapter_input.view(-1, adapter_input.shape[-1]) @ down, up)
    return out.view(*x.shape[:-1], -1)


def _dequantized(base: Any, dtype: torch.dtype) -> torch.Tensor:
    """The base weight, dequantised where it is quantised."""
    if isinstance(base, QuantizedLinear):
        return torch.empty(base.out_features, base.in_features, dtype=dtype)
    weight: torch.Tensor = base.weight
    return weight


def _factor_gradients(
    adapter_input: torch.Tensor, grad: torch.Tensor, low: torch.Tensor, down: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = adapter_input.reshape(-1, adapter_input.shape[-1])
    first = torch.empty_like(down.t()).addmm_(rows.t(), low, beta=0)
    second = torch.empty(down.shape[0], grad.shape[-1], dtype=down.dtype).addmm_(down @ rows.t(), grad, beta=0)
    return first.t(), second.t()


def _input_gradient(bases: Sequence[Any], grads: Sequence[torch.Tensor]) -> torch.Tensor:
    weight = _dequantized(bases[0], grads[0].dtype)
    found = grads[0] @ weight
    for base, grad in zip(bases[1:], grads[1:]):
        del weight
        weight = _dequantized(base, grad.dtype)
        found.addmm_(grad, weight)
    return found


def _dropout_input_gradient(
    input_gradient: torch.Tensor, low: Sequence[torch.Tensor], downs: Sequence[torch.Tensor], has_dropout: bool
) -> torch.Tensor | None:
    """The adapters' part of the input's gradient: a separate tensor where there is dropout, else added to it."""
    found = torch.zeros_like(input_gradient) if has_dropout else input_gradient
    for each, down in zip(low, downs):
        found.addmm_(each, down)
    return found if has_dropout else None


def patch(model: Any, groups: Sequence[str]) -> None:
    """Patches attention and MLP of the decoder layers of a model that PEFT wrapped."""
    for module in list(model.modules()):
        if "qkv" in groups and _adapted(module, QUERY_KEY_VALUE):
            _patch_query_key_value(module)
        if "o" in groups and _adapted(module, OUTPUT) and hasattr(module, "q_proj"):
            module.o_proj.forward = _call(_Projections, [module.o_proj])
        if "mlp" in groups and _adapted(module, MLP):
            module.forward = _call(_Mlp, [getattr(module, name) for name in MLP])


def _adapted(module: Any, names: Sequence[str]) -> bool:
    return all(hasattr(getattr(module, name, None), "lora_A") for name in names)


def _call(function: Any, layers: Sequence[Any]) -> Callable[[torch.Tensor], Any]:
    def forward(x: torch.Tensor) -> Any:
        dropout = layers[0].lora_dropout["default"]
        after_dropout = None if isinstance(dropout, torch.nn.Identity) else dropout(x)
        factors = [part["default"].weight for layer in layers for part in (layer.lora_A, layer.lora_B)]
        return function.apply(x, after_dropout, [layer.base_layer for layer in layers], *factors)

    return forward


def _patch_query_key_value(module: Any) -> None:
    """One call computes all three projections, when the query is asked for."""
    together = _call(_Projections, [getattr(module, name) for name in QUERY_KEY_VALUE])
    key_and_value: list[torch.Tensor] = []

    def first(x: torch.Tensor) -> torch.Tensor:
        query, *rest = together(x)
        key_and_value[:] = rest
        found: torch.Tensor = query
        return found

    module.q_proj.forward = first
    module.k_proj.forward = module.v_proj.forward = lambda x: key_and_value.pop(0)
