"""Host memory of offloaded activation checkpoints: the inputs of recomputed layers, which wait there for the
backward."""

from __future__ import annotations

from memlint.memory.segments.step import TrainingStep
from memlint.memory.sharding.zero.host import host_buffer_bytes
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.values import Unit


def offloaded_checkpoint_bytes(step: TrainingStep, units: tuple[Unit, ...]) -> int:
    """Bytes of host memory on one node. The copies are pinned, as non-blocking ones are (torch 2.13
    aten/src/ATen/native/TensorConversions.cpp, `pin_out`; unsloth_zoo 2025.9.14 gradient_checkpointing.py:438)."""
    run = step.run
    if run.checkpointing.mode in ("none", "selective"):
        return 0
    skips = run.checkpointing.skips_frozen_layers
    layers = sum(unit.repeat for unit in units if unit.name == "layer" and (_trains(unit) or not skips))
    return layers * host_buffer_bytes(step.counts["hidden"] * step.width, pinned=True) * ranks_per_node(run)


def _trains(unit: Unit) -> bool:
    return any(tensor.trainable for tensor in unit.tensors)
