"""Experts whose weights and adapters stay in host memory, where the CPU computes and trains them (KTransformers).

Source: kt-kernel 0.7.2 python/sft/arch.py:272 (move_non_experts_to_gpu), lora.py:701 (the adapters and their gradients
on the CPU), wrapper.py. The first process of a node holds them for all; the other modules are on each card as ever.
"""

from __future__ import annotations

import memlint.memory.sharding.model_parallel as parallel
from memlint.memory.state.storage import BYTES
from memlint.memory.values import ModelState, Tensor, Unit

_ADAM_MOMENTS = 2 * 4  # bytes a trained element of the host's adapters, in fp32


def on_the_card(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    """The units without the tensors of routed experts."""
    return tuple(
        unit._replace(tensors=tuple(tensor for tensor in unit.tensors if not parallel.is_expert(tensor)))
        for unit in units
    )


def with_host_memory(state: ModelState, units: tuple[Unit, ...]) -> ModelState:
    """The state with the host's memory for the experts of `units`: weights, and what their adapters train with."""
    kept = sum(
        _host_bytes(tensor) * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if parallel.is_expert(tensor)
    )
    return state._replace(host_bytes=state.host_bytes + kept)


def _host_bytes(tensor: Tensor) -> int:
    if not tensor.trainable:
        return tensor.stored_bytes
    return tensor.numel * (2 * BYTES[tensor.dtype] + _ADAM_MOMENTS)
