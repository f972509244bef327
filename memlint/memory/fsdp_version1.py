"""FullyShardedDataParallel: one flat parameter per wrapped module (torch 2.13 torch/distributed/fsdp)."""

from __future__ import annotations

from memlint.memory.fsdp_plan import Group, Plan
from memlint.memory.fsdp_state import Kept, accumulates, kept, reduce_element
from memlint.memory.model import ModelState, Unit, UnitState
from memlint.run import Run

_WHOLE_AFTER_FORWARD = ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2")


def place(run: Run, units: tuple[Unit, ...], made: Plan) -> ModelState:
    """Shards, the gathered units in flight, and gradients that are whole until their unit is reduced."""
    state = kept(run, units, made)
    offloads = run.parallelism.fsdp.cpu_offload
    gradients = 0 if offloads else made.master * state.trainable
    resident = _unreduced(units, made) if accumulates(run) else 0
    root = sum((rest for rest in made.outside), Group())
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
        gathered_at_loss=made.element * (root.numel + _whole_after_forward(run, units, made, root)),
        host_bytes=state.host,
    )


def _unreduced(units: tuple[Unit, ...], made: Plan) -> int:
    """`no_sync` leaves every unit's gradient whole, in the compute dtype (_runtime_utils.py:756)."""
    total = 0
    for unit, groups, rest in zip(units, made.wrapped, made.outside, strict=True):
        total += (sum(g.trainable for g in groups) + rest.trainable) * unit.repeat
    return made.element * total


def _units(run: Run, units: tuple[Unit, ...], made: Plan, root: Group) -> tuple[UnitState, ...]:
    everything = _everything(units, made)
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    states = []
    for index, unit in enumerate(units):
        groups, rest = made.wrapped[index], made.outside[index]
        mine = max((g.numel for g in groups), default=0)
        forward = root.numel + _forward(run, mine, largest, made, everything - root.numel)
        backward = root.numel + _backward(run, mine, largest, made, everything - root.numel)
        live, stays = _gradients(run, made, groups, rest, root, index == 0)
        states.append(UnitState(made.element * forward, made.element * backward, live, stays))
        del unit
    return tuple(states)


def _everything(units: tuple[Unit, ...], made: Plan) -> int:
    return sum(
        (sum(g.numel for g in groups) + rest.numel) * unit.repeat
        for unit, groups, rest in zip(units, made.wrapped, made.outside, strict=True)
    )


def _whole_after_forward(run: Run, units: tuple[Unit, ...], made: Plan, root: Group) -> int:
    kept = run.parallelism.fsdp.strategy in _WHOLE_AFTER_FORWARD
    return _everything(units, made) - root.numel if kept else 0


def _forward(run: Run, mine: int, largest: int, made: Plan, wrapped: int) -> int:
    """Elements gathered beside the root's, which stay from the forward's begin to the backward's end
    (_runtime_utils.py, _post_forward_reshard)."""
    fsdp = run.parallelism.fsdp
    if made.ranks == 1 and fsdp.strategy == "NO_SHARD":
        return wrapped if made.master != made.element else 0
    if fsdp.strategy in _WHOLE_AFTER_FORWARD:
        return wrapped
    ahead = largest if fsdp.forward_prefetch else 0
    return mine + ahead + max(mine, ahead) // made.ranks


def _backward(run: Run, mine: int, largest: int, made: Plan, wrapped: int) -> int:
    fsdp = run.parallelism.fsdp
    if fsdp.strategy in _WHOLE_AFTER_FORWARD or fsdp.strategy == "NO_SHARD":
        return _forward(run, mine, largest, made, wrapped)
    ahead = largest if fsdp.backward_prefetch != "NONE" else 0
    return mine + ahead


def _gradients(
    run: Run, made: Plan, groups: tuple[Group, ...], rest: Group, root: Group, last: bool
) -> tuple[int, int]:
    """(live, kept) bytes. The parts' gradients are concatenated into the flat one (the backward of `split`), so
    both are alive once; the root's wait for the embedding's, which comes last."""
    element, reduce = made.element, reduce_element(run, made.element)
    largest = max((g.trainable for g in groups), default=0)
    cast = reduce - element if reduce > element else 0
    live = (2 * element + cast) * largest
    stays = sum(made.master * g.trainable // made.ranks for g in groups)
    waits = element * rest.trainable
    if accumulates(run):
        stays = stays - sum(element * g.trainable for g in groups)
    if run.parallelism.fsdp.cpu_offload:
        stays = 0
    if last:
        return max(live, waits + (element + cast) * root.trainable), stays
    return live, stays + waits


def _save(run: Run, made: Plan, root: Group) -> int:
    """A full state dict gathers the root and one unit at a time in the shards' dtype."""
    if not run.saving.gathers_full_weights and run.parallelism.fsdp.state_dict_type != "FULL_STATE_DICT":
        return 0
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    return made.master * (root.numel + largest)


def _load(run: Run, made: Plan, state: Kept, root: Group) -> int:
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    return state.shards + made.master * max(largest, root.numel)
