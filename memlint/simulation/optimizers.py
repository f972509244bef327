"""Optimizers for the simulated step: PyTorch's own classes, run for real on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

KNOWN = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop", "adafactor")


def create(name: str, parameters: list[torch.nn.Parameter], momentum: float = 0.0) -> Any:
    """The optimizer that transformers builds for `name` (its OptimizerNames).

    Raises ValueError for one that has no class here.
    """
    if name == "adamw_torch_fused":
        return torch.optim.AdamW(parameters, fused=True)
    if name == "adamw_torch":
        return torch.optim.AdamW(parameters, foreach=True)  # what CUDA picks by default
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=1e-3, momentum=momentum, foreach=True)
    if name == "adagrad":
        return torch.optim.Adagrad(parameters, foreach=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(parameters, foreach=True, momentum=momentum)
    if name == "adafactor":
        from transformers import Adafactor

        return Adafactor(parameters, scale_parameter=False, relative_step=False, lr=1e-3)
    raise ValueError(f"no simulation of the optimizer {name!r}")


def states(optimizer: Any) -> Iterator[torch.Tensor]:
    """All state tensors."""
    for state in optimizer.state.values():
        for value in state.values():
            if isinstance(value, torch.Tensor):
                yield value


def on_host(optimizer: Any) -> Callable[[torch.Tensor], bool]:
    """Which tensors live in host memory: step counters, unless the optimizer is fused."""
    fused = any(group.get("fused") for group in optimizer.param_groups)
    return lambda tensor: not fused and tensor.dim() == 0
