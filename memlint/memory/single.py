"""Placement on one GPU and under DistributedDataParallel."""

from __future__ import annotations

from memlint.memory import optimizer
from memlint.memory.model import ModelState, Unit, UnitState
from memlint.memory.storage import BYTES, rounded
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """Everything whole on each GPU; DDP adds flat gradient buckets.

    The buckets are as large as the gradients and live from the wrapping on (torch 2.13
    torch/csrc/distributed/c10d/reducer.cpp, initialize_buckets); gradients are views of them only with
    `gradient_as_bucket_view`.
    """
    weights = sum(weight_bytes(unit) * unit.repeat for unit in units)
    per_unit = [gradient_bytes(run, unit) for unit in units]
    gradients = sum(size * unit.repeat for size, unit in zip(per_unit, units, strict=True))
    held = optimizer.memory(run, units)
    accumulates = bool(run.batch.gradient_accumulation_steps) and run.batch.gradient_accumulation_steps != 1
    data_parallel = run.parallelism.engine == "ddp"
    viewed = data_parallel and run.parallelism.ddp_bucket_view
    layerwise = run.optimizer.layerwise
    resident = gradients if accumulates and not viewed and not layerwise else 0
    stays = resident == 0 and not layerwise and not viewed
    states = tuple(
        UnitState(gradient_kept=size if stays else 0, gradient_live=size if layerwise else 0) for size in per_unit
    )
    return ModelState(
        weights=weights,
        optimizer_states=held.states,
        gradients_resident=resident,
        communication=gradients if data_parallel else 0,
        units=states,
        gradients_at_step=0 if layerwise or viewed else gradients,
        step_temporaries=held.step_temporaries,
        communication_at_step=gradients if data_parallel else 0,
        load_peak=weights,
    )


def weight_bytes(unit: Unit) -> int:
    """Stored bytes of one unit, each tensor rounded."""
    return sum(rounded(tensor.stored_bytes) * tensor.copies for tensor in unit.tensors)


def gradient_bytes(run: Run, unit: Unit) -> int:
    """Gradient bytes of one unit's trainable tensors."""
    dtype = run.precision.grad_dtype
    return sum(
        rounded(tensor.numel * BYTES[dtype or tensor.dtype]) * tensor.copies
        for tensor in unit.tensors
        if tensor.trainable
    )
