"""Stand-ins for Liger's kernels: what they allocate, save and overwrite. liger_kernel 0.8.5, ops/."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


class _Norm(torch.autograd.Function):  # type: ignore[misc]
    """ops/rms_norm.py, LigerRMSNormFunction."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, in_place: bool) -> torch.Tensor:
        ctx.save_for_backward(x, weight, torch.empty(x.numel() // x.shape[-1], dtype=torch.float32))
        ctx.in_place = in_place
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        weight = ctx.saved_tensors[1]
        own = torch.empty_like(weight) if ctx.needs_input_grad[1] else None
        return (grads[0].contiguous() if ctx.in_place else torch.empty_like(grads[0])), own, None


class _Product(torch.autograd.Function):  # type: ignore[misc]
    """ops/swiglu.py, LigerSiLUMulFunction: gradients overwrite the factors."""

    @staticmethod
    def forward(ctx: Any, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(gate, up)
        return torch.empty_like(gate)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return tuple(saved.view(saved.shape) for saved in ctx.saved_tensors)


class _Rope(torch.autograd.Function):  # type: ignore[misc]
    """ops/rope.py, LigerRopeFunction: rotated in place, forward and backward."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor) -> Any:
        return query.transpose(1, 2).contiguous().transpose(1, 2), key.transpose(1, 2).contiguous().transpose(1, 2)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return tuple(grad.transpose(1, 2).contiguous().transpose(1, 2) for grad in grads)


def patch(model: Any, in_place: bool) -> None:
    """Patches RMSNorm and the gated MLPs of one model."""
    for module in model.modules():
        name = type(module).__name__
        if name.endswith("RMSNorm"):
            module.forward = _norm(module, in_place or module.weight.numel() != model.config.hidden_size)
        elif name.endswith("MLP") and hasattr(module, "gate_proj"):
            module.forward = _mlp(module)


@contextmanager
def rotary(model: Any, active: bool) -> Iterator[None]:
    """Patches the rotary functions of the model's modules while the step runs. `active`: whether to."""
    codes: set[Any] = {sys.modules[type(module).__module__] for module in model.modules()} if active else set()
    known = [(code, code.apply_rotary_pos_emb) for code in codes if hasattr(code, "apply_rotary_pos_emb")]
    for code, _ in known:
        code.apply_rotary_pos_emb = lambda query, key, *rest, **more: _Rope.apply(query, key)
    try:
        yield
    finally:
        for code, original in known:
            code.apply_rotary_pos_emb = original


def _norm(module: Any, in_place: bool) -> Any:
    return lambda hidden: _Norm.apply(hidden, module.weight, in_place)


def _mlp(module: Any) -> Any:
    return lambda hidden: module.down_proj(_Product.apply(module.gate_proj(hidden), module.up_proj(hidden)))
