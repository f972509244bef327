"""Placement on one GPU and under DistributedDataParallel."""

from __future__ import annotations

import memlint.memory.optimizer as optimizer
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
    layerwise = optimizer.is_layerwise(run)
    data_parallel = run.parallelism.engine == "ddp"
    viewed = data_parallel and run.parallelism.ddp_bucket_view
    accumulates = run.batch.gradient_accumulation_steps not in (0, 1)  # unknown counts as accumulating
    stays = not (layerwise or viewed)
    resident = gradients if accumulates and stays else 0
    states = tuple(
        UnitState(
            gradient_live=size if layerwise or viewed else 0,
            gradient_kept=size if stays and not accumulates else 0,
        )
        for size in per_unit
    )
    if optimizer.is_blockwise(run):
        return _blockwise(run, units, weights, per_unit)
    return ModelState(
        weights=weights,
        optimizer_states=held.states,
        gradients_resident=resident,
        communication=gradients if data_parallel else 0,
        units=states,
        gradients_at_step=gradients if stays else 0,
        step_temporaries=held.step_temporaries,
        communication_at_step=gradients if data_parallel else 0,
        load_peak=weights,
        host_bytes=held.managed + held.host,
        notes=MANAGED if held.managed else (),
    )


# Managed memory is on the card while there is room and on the host otherwise.
MANAGED = ("paged optimizer states are managed memory: they leave the card when it is full",)


def _blockwise(run: Run, units: tuple[Unit, ...], weights: int, per_unit: list[int]) -> ModelState:
    """BAdam: gradients and states of the block being trained only; the largest block decides."""
    held = [optimizer.memory(run, (unit._replace(repeat=1),)) for unit in units]
    gradient = max(per_unit)
    states = max(block.states for block in held)
    live = tuple(UnitState(gradient_kept=0) for _ in units)
    return ModelState(
        weights=weights,
        optimizer_states=states,
        gradients_resident=gradient,
        communication=0,
        units=live,
        gradients_at_step=gradient,
        step_temporaries=max(block.step_temporaries for block in held),
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
