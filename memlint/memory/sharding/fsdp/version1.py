"""FullyShardedDataParallel: one flat parameter per wrapped module (torch 2.13 torch/distributed/fsdp)."""

from __future__ import annotations

from memlint.memory.sharding.fsdp.plan import Group, WrapPlan, joined
from memlint.memory.sharding.fsdp.state import ShardedState, accumulates, kept, reduce_element
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run

_WHOLE_AFTER_FORWARD = ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2")


def place(run: Run, units: tuple[Unit, ...], made: WrapPlan) -> ModelState:
    """Shards, the gathered units in flight, and gradients that are whole until their unit is reduced."""
    state = kept(run, units, made)
    offloads = run.parallelism.fsdp.cpu_offload
    gradients = 0 if offloads else made.master * state.trainable
    resident = _unreduced(units, made) if accumulates(run) else 0
    root = joined((rest, unit.repeat) for rest, unit in zip(made.outside, units, strict=True))
    at_loss = made.element * (root.numel + _whole_after_forward(run, units, made, root))
    return ModelState(
        weights=state.shards,
        optimizer_states=state.states,
        gradients_resident=resident,
        communication=0,
        units=_units(run, units, made, root),
        gradients_at_step=gradients,
        step_temporaries=state.step_temporaries,
        save_temporaries=_save(run, made, root),
        load_peak=_load(run, made, state, root),
        gathered_at_loss=at_loss,
        gathered_at_loss_backward=at_loss,
        host_bytes=state.host,
    )


def _unreduced(units: tuple[Unit, ...], made: WrapPlan) -> int:
    """`no_sync` leaves every unit's gradient whole, in the compute dtype (_runtime_utils.py:743)."""
    total = 0
    for unit, groups, rest in zip(units, made.wrapped, made.outside, strict=True):
        total += (sum(g.trainable for g in groups) + rest.trainable) * unit.repeat
    return made.element * total


def _units(run: Run, units: tuple[Unit, ...], made: WrapPlan, root: Group) -> tuple[UnitState, ...]:
    wrapped = _everything(units, made) - root.numel
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    states = []
    for index in range(len(units)):
        groups, rest = made.wrapped[index], made.outside[index]
        mine = max((g.numel for g in groups), default=0)
        ahead = largest if index else 0
        gathered = (
            made.element * (root.numel + _forward(run, mine, largest, made, wrapped)),
            made.element * (root.numel + _backward(run, mine, ahead, made, wrapped)),
        )
        stays = _stays(run, made, groups, rest)
        live, end = _gradients(run, made, groups, rest, root.trainable if index == 0 else 0)
        states.append(UnitState(*gathered, live, stays, end))
    return tuple(states)


def _stays(run: Run, made: WrapPlan, groups: tuple[Group, ...], rest: Group) -> int:
    """Bytes more (or less) once a unit's backward is over: its reduced gradients; the root's parts wait for the
    embedding's, which comes last; without resharding after the forward its parameters are freed now."""
    stays = made.element * rest.trainable
    for group in groups:
        stays += 0 if run.parallelism.fsdp.cpu_offload else made.master * group.trainable // made.ranks
        stays -= made.element * group.trainable if accumulates(run) else 0
        stays -= made.element * group.numel if run.parallelism.fsdp.strategy in _WHOLE_AFTER_FORWARD else 0
    return stays


def _everything(units: tuple[Unit, ...], made: WrapPlan) -> int:
    return sum(
        (sum(g.numel for g in groups) + rest.numel) * unit.repeat
        for unit, groups, rest in zip(units, made.wrapped, made.outside, strict=True)
    )


def _whole_after_forward(run: Run, units: tuple[Unit, ...], made: WrapPlan, root: Group) -> int:
    kept = run.parallelism.fsdp.strategy in _WHOLE_AFTER_FORWARD
    return _everything(units, made) - root.numel if kept else 0


def _forward(run: Run, mine: int, largest: int, made: WrapPlan, wrapped: int) -> int:
    """Elements gathered beside the root's, which stay from the forward's begin to the backward's end
    (_runtime_utils.py, _post_forward_reshard). In mixed precision a unit's shard is first cast (`_mp_shard`)."""
    fsdp = run.parallelism.fsdp
    casts = made.master != made.element
    if fsdp.strategy == "NO_SHARD" and not casts:
        return 0
    if fsdp.strategy in _WHOLE_AFTER_FORWARD:
        return wrapped
    ahead = largest if fsdp.forward_prefetch else 0
    cast = max(mine, ahead) // made.ranks if casts and made.ranks > 1 else 0
    return mine + ahead + cast


def _backward(run: Run, mine: int, ahead: int, made: WrapPlan, wrapped: int) -> int:
    fsdp = run.parallelism.fsdp
    if fsdp.strategy in _WHOLE_AFTER_FORWARD or (fsdp.strategy == "NO_SHARD" and made.master == made.element):
        return _forward(run, mine, ahead, made, wrapped)
    return mine + (ahead if fsdp.backward_prefetch != "NONE" else 0)


def _gradients(run: Run, made: WrapPlan, groups: tuple[Group, ...], rest: Group, root: int) -> tuple[int, int]:
    """Bytes of whole gradients (while the activations are at their peak: one matrix's; at the end). The parts'
    gradients are concatenated into the flat one (the backward of `split`), so both are alive once: a unit's at its end,
    the root's (`root` elements) when the embedding is done."""
    element, reduce = made.element, reduce_element(run, made.element)
    cast = reduce if reduce > element else 0
    trainable = max((g.trainable for g in groups), default=0)
    largest = max((g.largest for g in groups), default=0)
    end = (element + max(element, cast)) * trainable + element * rest.trainable + max(element, cast) * root
    return element * (largest + rest.trainable), end


def _save(run: Run, made: WrapPlan, root: Group) -> int:
    """A full state dict gathers the root and one unit at a time in the shards' dtype."""
    if not run.saving.gathers_full_weights and run.parallelism.fsdp.state_dict_type != "FULL_STATE_DICT":
        return 0
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    return made.master * (root.numel + largest)


def _load(run: Run, made: WrapPlan, state: ShardedState, root: Group) -> int:
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    return state.shards + made.master * max(largest, root.numel)
