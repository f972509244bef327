"""What both versions of FSDP keep on a rank: shards, their gradients and the optimizer's states."""

from __future__ import annotations

from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.memory.sharding.fsdp.plan import WrapPlan, divide, has_decoder_apart, stored_element
from memlint.memory.sharding.zero.layout import ranks_per_node
from memlint.memory.state import optimizers as optimizer
from memlint.memory.state.optimizers import OptimizerMemory
from memlint.memory.state.storage import BYTES
from memlint.memory.values import Tensor, Unit, with_tensors
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
    optimizer_memory = _optimizer_memory(run, units, plan)
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


_RANKS_EXAMINED = 8  # and the last: beyond, shards are smaller than most tensors and look alike


def _optimizer_memory(run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> OptimizerMemory:
    """States and temporaries of the fullest rank. FSDP2 gives each rank a part of every tensor, FSDP1 a part of every
    flat parameter, in which a tensor is whole on one rank or cut by a border."""
    if run.parallelism.fsdp.version == 2:
        return optimizer.memory(run, _sharded(run, units, plan.ranks))
    flat = _flat_parameters(run, units)
    ranks = {*range(min(plan.ranks, _RANKS_EXAMINED)), plan.ranks - 1}
    every = [optimizer.memory(run, _flat_shards(run, flat, plan.ranks, rank)) for rank in sorted(ranks)]
    return max(every, key=lambda memory: memory.states + memory.step_temporaries)


def _sharded(run: Run, units: tuple[Unit, ...], ranks: int) -> tuple[Unit, ...]:
    """The units as FSDP2's optimizer sees them on the first rank: rows of each tensor."""
    return with_tensors(units, lambda tensor: _shard(run, tensor, ranks))


def _shard(run: Run, tensor: Tensor, ranks: int) -> Tensor:
    rows = tensor.shape[0] if tensor.shape else tensor.numel
    return _part(run, tensor, -(-rows // ranks) * (tensor.numel // rows) if rows else 0)


def _part(run: Run, tensor: Tensor, numel: int) -> Tensor:
    """`numel` elements of a tensor, as the optimizer sees them."""
    dtype = "float32" if tensor.trainable and stored_element(run, tensor) == 4 else tensor.dtype
    return tensor._replace(
        numel=numel, shape=(numel,), dtype=dtype, stored_bytes=int(numel * stored_element(run, tensor))
    )


Flat = list[Tensor]  # the tensors of a flat parameter, each of its copies for itself


def _flat_parameters(run: Run, units: tuple[Unit, ...]) -> list[tuple[Unit, list[Flat]]]:
    """The flat parameters that FSDP1 makes of each unit, and then of what is left to the decoder and to the root."""
    found: list[tuple[Unit, list[Flat]]] = []
    left: list[Flat] = []
    for unit in units:
        inner, rest = divide(run, unit)
        left.append(_each_copy(rest) * unit.repeat)
        found.append((unit, [_each_copy(group) for group in inner]))
    border = len(units) - 1 if has_decoder_apart(run, units) else 0
    for rests in (left[:border], left[border:]):
        found.append((Unit("left", ()), [[tensor for rest in rests for tensor in rest]]))
    return found


def _each_copy(tensors: list[Tensor]) -> Flat:
    return [tensor._replace(copies=1) for tensor in tensors for _ in range(tensor.copies) if tensor.dtype in BYTES]


def _flat_shards(run: Run, flat: list[tuple[Unit, list[Flat]]], ranks: int, rank: int) -> tuple[Unit, ...]:
    """The units as FSDP1's optimizer sees them on one rank."""
    parts = ((unit, (part for one in own for part in _of_rank(run, one, ranks, rank))) for unit, own in flat)
    return tuple(unit._replace(tensors=tuple(tensors)) for unit, tensors in parts)


def _of_rank(run: Run, flat: Flat, ranks: int, rank: int) -> Iterator[Tensor]:
    """The parts of a flat parameter's tensors on one rank; without `use_orig_params` the optimizer sees one tensor."""
    share = -(-sum(tensor.numel for tensor in flat) // ranks)
    if not run.parallelism.fsdp.use_orig_params:
        if share and any(tensor.trainable for tensor in flat):
            yield _part(run, flat[0]._replace(trainable=True), share)
        return
    start = -rank * share
    for tensor in flat:
        numel = min(share, start + tensor.numel) - max(0, start)
        if tensor.trainable and numel > 0:
            yield _part(run, tensor, numel)
        start += tensor.numel


def accumulates(run: Run) -> bool:
    """Whether a step has several backward passes, and gradients stay whole until the last one."""
    return has_several_passes(run) and not run.parallelism.fsdp.reduces_each_backward


def has_several_passes(run: Run) -> bool:
    """Whether a step has several backward passes."""
    steps = run.batch.gradient_accumulation_steps
    return isinstance(steps, int) and steps > 1


def earlier_shards(run: Run, trainable: int) -> int:
    """Bytes of the sharded gradients that earlier backward passes of a step left: the later ones add to them."""
    reduced = has_several_passes(run) and run.parallelism.fsdp.reduces_each_backward
    return trainable if reduced and not run.parallelism.fsdp.cpu_offload else 0


def reduce_element(run: Run, element: int) -> int:
    """Bytes of one element of a gradient while it is reduced."""
    return BYTES.get(run.parallelism.fsdp.reduce_dtype, element)
