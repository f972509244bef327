"""Layer inputs that wait in host memory until the backward."""

from __future__ import annotations

from memlint.memory.sharding.zero.host import held
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.step import TrainingStep
from memlint.memory.values import Unit


def checkpoints_there(shared: TrainingStep, units: tuple[Unit, ...]) -> int:
    """Bytes that they take in one node: pinned, as copies are that do not block (torch 2.13
    aten/src/ATen/native/TensorConversions.cpp, `pin_out`; unsloth_zoo 2025.9.14 gradient_checkpointing.py:438)."""
    run = shared.run
    if run.checkpointing.mode in ("none", "selective"):
        return 0
    skips = run.checkpointing.skips_frozen_layers
    layers = sum(unit.repeat for unit in units if unit.name == "layer" and (_trains(unit) or not skips))
    return layers * held(shared.counts["hidden"] * shared.width, pinned=True) * ranks_per_node(run)


def _trains(unit: Unit) -> bool:
    return any(tensor.trainable for tensor in unit.tensors)
