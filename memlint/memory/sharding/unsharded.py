"""Model state on one GPU and under DistributedDataParallel: nothing is sharded. Bytes on each GPU."""

from __future__ import annotations

import memlint.memory.sharding.packed_experts as packed_experts
import memlint.memory.state.optimizers as optimizer
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...]) -> ModelState:
    """The model state. DDP adds flat gradient buckets, BAdam an fp32 copy of the block that trains.

    The buckets are as large as the gradients and live from the wrapping on (torch 2.13
    torch/csrc/distributed/c10d/reducer.cpp, initialize_buckets); gradients are views of them only with
    `gradient_as_bucket_view`.
    """
    weights = sum(weight_bytes(unit) * unit.repeat for unit in units)
    per_unit = [gradient_bytes(run, unit) for unit in units]
    gradients = sum(size * unit.repeat for size, unit in zip(per_unit, units, strict=True))
    blockwise = run.optimizer.badam_mode != ""
    optimizer_memory = optimizer.memory(run, _block_in_fp32(units) if blockwise else units)
    layerwise = optimizer.is_layerwise(run)
    data_parallel = run.parallelism.engine == "ddp"
    bucket_views = data_parallel and run.parallelism.ddp_bucket_view
    accumulates = run.batch.gradient_accumulation_steps not in (0, 1) or _zeroes_gradients(run)  # unknown counts
    accumulated_by_autograd = not (layerwise or bucket_views)
    gradients_resident = gradients if accumulates and accumulated_by_autograd else 0
    states = tuple(
        _unit_state(run, unit, size, accumulated_by_autograd, bucket_views, accumulates)
        for unit, size in zip(units, per_unit, strict=True)
    )
    master = _fp32_bytes(units) if blockwise else 0
    return ModelState(
        weights=weights,
        optimizer_states=optimizer_memory.states + master,
        gradients_resident=gradients_resident,
        communication=gradients if data_parallel else 0,
        units=states,
        gradients_at_step=(master or gradients) if accumulated_by_autograd else 0,
        step_temporaries=0 if layerwise else optimizer_memory.step_temporaries,
        communication_at_step=gradients if data_parallel else 0,
        load_peak=max(weights, _kbit_preparation_peak(run, units), packed_experts.loading_peak(run, weights, units)),
        host_bytes=optimizer_memory.managed + optimizer_memory.host,
        notes=MANAGED_NOTE if optimizer_memory.managed else (),
    )


def _zeroes_gradients(run: Run) -> bool:
    """Whether gradients stay between steps: before PyTorch 2.0 `model.zero_grad()` filled them with zeros (torch 1.13.1
    nn/modules/module.py, `set_to_none: bool = False`)."""
    return () < run.stack.torch < (2, 0)


def _kbit_preparation_peak(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of weights while peft converts what is not quantised to fp32, before trl converts embeddings and head to
    bf16 and adds adapters. It goes parameter by parameter, so that the largest is there twice (peft utils/other.py,
    prepare_model_for_kbit_training)."""
    quantization = run.model.quantization
    if not quantization.upcast_rest_to_fp32 or run.model.weights_dtype == "float32":
        return 0
    frozen = [(unit.repeat, tensor) for unit in units for tensor in unit.tensors if not tensor.trainable]
    halves = [tensor.numel for _, tensor in frozen if tensor.dtype in _FLOAT_DTYPES]
    wide = sum(rounded(4 * t.numel if t.dtype in _FLOAT_DTYPES else t.stored_bytes) * t.copies * n for n, t in frozen)
    return wide + rounded(2 * max(halves, default=0))


_FLOAT_DTYPES = ("float32", "bfloat16")

# Managed memory is on the card while there is room and on the host otherwise.
MANAGED_NOTE = ("paged optimizer states are managed memory: they leave the card when it is full",)


def _unit_state(
    run: Run, unit: Unit, size: int, accumulated_by_autograd: bool, bucket_views: bool, accumulates: bool
) -> UnitState:
    """A unit's gradients: accumulated until the step, views of a DDP bucket, or used at once by a layer-wise step."""
    if bucket_views:
        return UnitState(gradient_live=size)
    if accumulated_by_autograd:
        return UnitState(gradient_kept=0 if accumulates else size)
    dtype = run.precision.grad_dtype
    largest_gradient = max((rounded(t.numel * BYTES[dtype or t.dtype]) for t in unit.tensors if t.trainable), default=0)
    step = optimizer.largest_tensor_step(run, unit.tensors)
    return UnitState(
        gradient_live=step + (largest_gradient if optimizer.step_lags_one_gradient(run) else 0),
        gradient_end=step + largest_gradient,
    )


def _block_in_fp32(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """BAdam's optimizer sees fp32 copies of the block that trains (BAdam 1.4 block_optim.py:512)."""
    return tuple(
        unit._replace(tensors=tuple(t._replace(dtype="float32") if t.trainable else t for t in unit.tensors))
        for unit in units
    )


def _fp32_bytes(units: tuple[Unit, ...]) -> int:
    """Bytes of what trains in fp32: BAdam's copy, and its gradients at the step, when those in half precision are freed
    (BAdam 1.4 block_optim.py:260-274)."""
    return sum(rounded(4 * t.numel) * t.copies * unit.repeat for unit in units for t in unit.tensors if t.trainable)


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
