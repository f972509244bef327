"""Stand-ins for Axolotl's LoRA kernels: what they allocate, keep and write over.

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
        ctx: Any, x: torch.Tensor, dropped: torch.Tensor | None, bases: Sequence[Any], *factors: torch.Tensor
    ) -> Any:
        read = x if dropped is None else dropped
        pairs = list(zip(factors[::2], factors[1::2]))
        outputs = tuple(_with_lora(x, read, base, *pair) for base, pair in zip(bases, pairs))
        ctx.save_for_backward(x, read, *(factor.to(x.dtype) for factor in factors))
        ctx.bases, ctx.dropped = bases, dropped is not None
        return outputs if len(outputs) > 1 else outputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, read, *factors = ctx.saved_tensors
        flat = [grad.reshape(-1, grad.shape[-1]) for grad in grads]
        low = [grad @ up for grad, up in zip(flat, factors[1::2])]
        own = [_factor_gradients(read, *each) for each in zip(flat, low, factors[::2])]
        into = _into_input(ctx.bases, flat)
        apart = _into_dropped(into, low, factors[::2], ctx.dropped)
        return into.view(x.shape), _like(apart, x), None, *(gradient for pair in own for gradient in pair)


class _Mlp(torch.autograd.Function):  # type: ignore[misc]
    """LoRA_MLP (kernels/lora.py:283): the gradients of gate and up, and the product, take what is there already."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, dropped: torch.Tensor | None, bases: Sequence[Any], *factors: torch.Tensor
    ) -> torch.Tensor:
        read = x if dropped is None else dropped
        pairs = list(zip(factors[::2], factors[1::2]))
        gate, up = (_with_lora(x, read, base, *pair) for base, pair in zip(bases[:2], pairs))
        product = torch.empty_like(gate)
        found = _with_lora(product, product, bases[2], *pairs[2])
        ctx.save_for_backward(x, read, gate, up, *(factor.to(x.dtype) for factor in factors))
        ctx.bases, ctx.dropped = bases, dropped is not None
        return found

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        x, read, gate, up, *factors = ctx.saved_tensors
        arriving = grads[0].reshape(-1, grads[0].shape[-1])
        weight = _whole(ctx.bases[2], arriving.dtype)
        product = (arriving @ weight).addmm_(arriving @ factors[5], factors[4])
        del weight
        low = [arriving @ factors[5]]
        own = [_factor_gradients(product, arriving, low[0], factors[4])]
        flat = [part.reshape(-1, part.shape[-1]) for part in (gate, up)]
        low += [grad @ factor for grad, factor in zip(flat, factors[1:4:2])]
        own += [_factor_gradients(read, *each) for each in zip(flat, low[1:], factors[:4:2])]
        into = _into_input(ctx.bases[:2], flat)
        apart = _into_dropped(into, low[1:], factors[:4:2], ctx.dropped)
        own = [*own[1:], own[0]]
        return into.view(x.shape), _like(apart, x), None, *(gradient for pair in own for gradient in pair)


def _like(gradient: torch.Tensor | None, x: torch.Tensor) -> torch.Tensor | None:
    return None if gradient is None else gradient.view(x.shape)


def _with_lora(x: torch.Tensor, read: torch.Tensor, base: Any, down: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """kernels/lora.py:226, matmul_lora."""
    flat = x.view(-1, x.shape[-1])
    weight = _whole(base, x.dtype)
    out = flat @ weight.t()
    del weight
    down, up = down.t().to(x.dtype), up.t().to(x.dtype)
    out.addmm_(read.view(-1, read.shape[-1]) @ down, up)
    return out.view(*x.shape[:-1], -1)


def _whole(base: Any, dtype: torch.dtype) -> torch.Tensor:
    """The base weight; a quantised one made whole."""
    if isinstance(base, QuantizedLinear):
        return torch.empty(base.out_features, base.in_features, dtype=dtype)
    weight: torch.Tensor = base.weight
    return weight


def _factor_gradients(
    read: torch.Tensor, grad: torch.Tensor, low: torch.Tensor, down: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    rows = read.reshape(-1, read.shape[-1])
    first = torch.empty_like(down.t()).addmm_(rows.t(), low, beta=0)
    second = torch.empty(down.shape[0], grad.shape[-1], dtype=down.dtype).addmm_(down @ rows.t(), grad, beta=0)
    return first.t(), second.t()


def _into_input(bases: Sequence[Any], grads: Sequence[torch.Tensor]) -> torch.Tensor:
    weight = _whole(bases[0], grads[0].dtype)
    found = grads[0] @ weight
    for base, grad in zip(bases[1:], grads[1:]):
        del weight
        weight = _whole(base, grad.dtype)
        found.addmm_(grad, weight)
    return found


def _into_dropped(
    into: torch.Tensor, low: Sequence[torch.Tensor], downs: Sequence[torch.Tensor], dropped: bool
) -> torch.Tensor | None:
    """The adapters' share of the input's gradient: with dropout a tensor of its own."""
    found = torch.zeros_like(into) if dropped else into
    for each, down in zip(low, downs):
        found.addmm_(each, down)
    return found if dropped else None


def patch(model: Any, groups: Sequence[str]) -> None:
    """The decoder layers' attention and MLP of a model that PEFT wrapped."""
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
        dropped = None if isinstance(dropout, torch.nn.Identity) else dropout(x)
        factors = [part["default"].weight for layer in layers for part in (layer.lora_A, layer.lora_B)]
        return function.apply(x, dropped, [layer.base_layer for layer in layers], *factors)

    return forward


def _patch_query_key_value(module: Any) -> None:
    """The three come of one call, which the query makes."""
    together = _call(_Projections, [getattr(module, name) for name in QUERY_KEY_VALUE])
    waiting: list[torch.Tensor] = []

    def first(x: torch.Tensor) -> torch.Tensor:
        query, *rest = together(x)
        waiting[:] = rest
        found: torch.Tensor = query
        return found

    module.q_proj.forward = first
    module.k_proj.forward = module.v_proj.forward = lambda x: waiting.pop(0)
