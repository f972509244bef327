"""Optimizers for the simulated step: PyTorch's own classes, run for real on fake tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

# AdamW of bitsandbytes: bits of its states, and whether they are managed memory, which CUDA may move to the host.
_BITSANDBYTES = {
    "adamw_bnb_8bit": (8, False),
    "adamw_8bit": (8, False),
    "paged_adamw_8bit": (8, True),
    "paged_adamw_32bit": (32, True),
    "paged_adamw": (32, True),
}
KNOWN = ("adamw_torch", "adamw_torch_fused", "sgd", "adagrad", "rmsprop", "adafactor", *_BITSANDBYTES)
_MIN_PAGED_SIZE, _MIN_8BIT_SIZE, _BLOCK = 100_000, 4096, 256  # bitsandbytes 0.50.2 optim/optimizer.py:383, :414, :521


class BlockwiseAdamW(torch.optim.Optimizer):  # type: ignore[misc]
    """A stand-in for bitsandbytes' AdamW: its states (optim/optimizer.py, Optimizer2State.init_state); the step is one
    kernel without temporaries. Parameters in `in_32_bits` keep 32 bits. Paged states are on the host."""

    def __init__(self, parameters: Any, bits: int, paged: bool, in_32_bits: frozenset[int]) -> None:
        super().__init__(parameters, {})
        self.bits, self.paged, self.in_32_bits = bits, paged, in_32_bits

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and not self.state[parameter]:
                    self.state[parameter] = self._states(parameter)

    def _states(self, parameter: torch.nn.Parameter) -> dict[str, torch.Tensor]:
        is_8bit = self.bits == 8 and parameter.numel() >= _MIN_8BIT_SIZE and id(parameter) not in self.in_32_bits
        dtype = torch.uint8 if is_8bit else torch.float32
        tensors = {}
        for name in ("state1", "state2"):
            if not self.paged or parameter.numel() < _MIN_PAGED_SIZE:
                tensors[name] = torch.zeros_like(parameter, dtype=dtype)
            if is_8bit:
                tensors[f"absmax_{name}"] = torch.zeros(-(-parameter.numel() // _BLOCK))
        return tensors


def create(
    name: str, parameters: list[torch.nn.Parameter], momentum: float = 0.0, in_32_bits: frozenset[int] = frozenset()
) -> Any:
    """The optimizer that transformers builds for `name` (its OptimizerNames). `in_32_bits`: ids of parameters
    whose states stay in 32 bits.

    Raises ValueError for one that has no class here.
    """
    if name in _BITSANDBYTES:
        return BlockwiseAdamW(parameters, *_BITSANDBYTES[name], in_32_bits)
    if name == "adamw_torch_fused":
        return torch.optim.AdamW(parameters, fused=True)
    if name == "adamw_torch":
        return torch.optim.AdamW(parameters, foreach=True)  # the default on CUDA
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
