"""Activation checkpoints (inputs of recomputed layers) that are offloaded to host memory until the backward."""

from __future__ import annotations

from memlint.memory.sharding.zero.host import host_buffer_bytes
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.step import TrainingStep
from memlint.memory.values import Unit


def checkpoints_there(step: TrainingStep, units: tuple[Unit, ...]) -> int:
    """Host bytes of one node. They are pinned, as non-blocking copies are (torch 2.13
    aten/src/ATen/native/TensorConversions.cpp, `pin_out`; unsloth_zoo 2025.9.14 gradient_checkpointing.py:438)."""
    run = step.run
    if run.checkpointing.mode in ("none", "selective"):
        return 0
    skips = run.checkpointing.skips_frozen_layers
    layers = sum(unit.repeat for unit in units if unit.name == "layer" and (_trains(unit) or not skips))
    return layers * host_buffer_bytes(step.counts["hidden"] * step.width, pinned=True) * ranks_per_node(run)


def _trains(unit: Unit) -> bool:
    return any(tensor.trainable for tensor in unit.tensors)
