"""What both versions of FSDP keep on a rank: shards, their gradients and the optimizer's states."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.memory import optimizers as optimizer
from memlint.memory.sharding.fsdp.plan import WrapPlan, stored_element
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.storage import BYTES
from memlint.memory.values import Tensor, Unit
from memlint.run import Run


class ShardedState(NamedTuple):
    """Bytes on one rank. `trainable`: elements of its shards that train."""

    shards: int
    states: int
    step_temporaries: int
    trainable: int
    host: int


def sharded_state(run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> ShardedState:
    """Shards and optimizer states. With CPU offload they and the gradients are in host memory."""
    shards = _total(units, plan, 2)
    trainable = _total(units, plan, 1) // plan.ranks
    optimizer_memory = optimizer.memory(run, _sharded(run, units, plan.ranks))
    if not run.parallelism.fsdp.cpu_offload:
        return ShardedState(shards, optimizer_memory.states, optimizer_memory.step_temporaries, trainable, 0)
    host = (
        shards + optimizer_memory.states + optimizer_memory.step_temporaries + plan.master * trainable
    ) * ranks_per_node(run)
    return ShardedState(0, 0, 0, trainable, host)


def _total(units: tuple[Unit, ...], plan: WrapPlan, field: int) -> int:
    """A field of `ParameterGroup` summed over the model."""
    total = 0
    for unit, groups, rest in zip(units, plan.wrapped, plan.unwrapped, strict=True):
        total += (sum(group[field] for group in groups) + rest[field]) * unit.repeat
    return total


def _sharded(run: Run, units: tuple[Unit, ...], ranks: int) -> tuple[Unit, ...]:
    """The units as the optimizer sees them on one rank."""
    return tuple(unit._replace(tensors=tuple(_shard(run, t, ranks) for t in unit.tensors)) for unit in units)


def _shard(run: Run, tensor: Tensor, ranks: int) -> Tensor:
    numel = -(-tensor.numel // ranks)
    dtype = "float32" if tensor.trainable and stored_element(run, tensor) == 4 else tensor.dtype
    return tensor._replace(
        numel=numel, shape=(numel,), dtype=dtype, stored_bytes=int(numel * stored_element(run, tensor))
    )


def accumulates(run: Run) -> bool:
    """Whether a step has several backward passes."""
    steps = run.batch.gradient_accumulation_steps
    return isinstance(steps, int) and steps > 1


def reduce_element(run: Run, element: int) -> int:
    """Bytes of one element of a gradient while it is reduced."""
    return BYTES.get(run.parallelism.fsdp.reduce_dtype, element)
