"""States and step temporaries of optimizers, bytes."""

from __future__ import annotations

from memlint.memory.model import Unit
from memlint.memory.storage import BYTES, rounded
from memlint.run import Run

_FUSED = ("adamw_torch_fused", "adamw_fused")


class OptimizerMemory:
    """What an optimizer holds for the tensors of one GPU."""

    __slots__ = ("states", "step_temporaries")

    def __init__(self, states: int, step_temporaries: int) -> None:
        self.states = states
        self.step_temporaries = step_temporaries


def memory(run: Run, units: tuple[Unit, ...]) -> OptimizerMemory:
    """States and temporaries for every trainable tensor, unsharded."""
    states = 0
    trainable = 0
    for unit in units:
        for tensor in unit.tensors:
            if tensor.trainable:
                size = rounded(tensor.numel * BYTES[tensor.dtype]) * tensor.copies * unit.repeat
                trainable += size
                states += 2 * size
    fused = run.optimizer.fused or run.optimizer.name in _FUSED
    return OptimizerMemory(states, 0 if fused else trainable)
