"""fully_shard: every parameter split along its first dimension (torch 2.13 torch/distributed/fsdp/_fully_shard)."""

from __future__ import annotations

from memlint.memory.fsdp_plan import Group, Plan
from memlint.memory.fsdp_state import accumulates, kept, reduce_element
from memlint.memory.model import ModelState, Unit, UnitState
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...], made: Plan) -> ModelState:
    """Shards; per unit the gathered parameters, the buffers they come through and gradients until reduced."""
    state = kept(run, units, made)
    offloads = run.parallelism.fsdp.cpu_offload
    largest = max((g.numel for groups in made.wrapped for g in groups), default=0)
    return ModelState(
        weights=state.shards,
        optimizer_states=state.states,
        gradients_resident=_unreduced(run, units, made) if accumulates(run) else 0,
        communication=0,
        units=_units(run, units, made),
        gradients_at_step=0 if offloads else made.master * state.trainable,
        step_temporaries=state.step_temporaries,
        save_temporaries=made.master * largest if run.saving.gathers_full_weights else 0,
        load_peak=state.shards + made.master * largest,
        host_bytes=state.host,
        gathered_at_loss=_at_loss(run, units, made),
    )


def _at_loss(run: Run, units: tuple[Unit, ...], made: Plan) -> int:
    """The tail's parameters and the all-gather buffer they came through; all units without resharding."""
    tail = made.outside[-1].numel
    copied = tail if made.ranks > 1 else 0
    if run.parallelism.fsdp.reshard_after_forward:
        return made.element * (tail + copied)
    whole = sum(
        (sum(g.numel for g in inner) + rest.numel) * unit.repeat
        for unit, inner, rest in zip(units, made.wrapped, made.outside, strict=True)
    )
    return made.element * (whole + copied)


def _unreduced(run: Run, units: tuple[Unit, ...], made: Plan) -> int:
    """Without gradient sync every gradient stays whole, in the reduce dtype (_fsdp_param.py,
    to_accumulated_grad_if_needed)."""
    total = 0
    for unit, groups, rest in zip(units, made.wrapped, made.outside, strict=True):
        total += (sum(g.trainable for g in groups) + rest.trainable) * unit.repeat
    return max(made.element, reduce_element(run, made.element)) * total


def _units(run: Run, units: tuple[Unit, ...], made: Plan) -> tuple[UnitState, ...]:
    """accelerate gives the embedding a group of its own and the final norm and head another one, which stays
    gathered from the forward to the backward (utils/fsdp_utils.py:857-879)."""
    head = made.outside[-1]
    reshards = run.parallelism.fsdp.reshard_after_forward
    groups = [
        max(inner, default=Group()) if inner else rest for inner, rest in zip(made.wrapped, made.outside, strict=True)
    ]
    total = sum(group.numel * unit.repeat for group, unit in zip(groups, units, strict=True))
    states = []
    for index in range(len(units)):
        mine = groups[index]
        before = groups[index - 1] if index else Group()
        after = groups[index + 1] if index + 1 < len(groups) else Group()
        if units[index].repeat > 1:
            before = after = mine
        forward = _forward(made, mine, before, total, reshards)
        backward = _backward(made, mine, before, head, total, reshards, index == len(units) - 1)
        live = _live(run, made, mine, after)
        stays = made.master * mine.trainable // made.ranks
        if accumulates(run):
            stays -= max(made.element, reduce_element(run, made.element)) * mine.trainable
        states.append(UnitState(forward, backward, live, 0 if run.parallelism.fsdp.cpu_offload else stays))
    return tuple(states)


def _forward(made: Plan, mine: Group, before: Group, total: int, reshards: bool) -> int:
    """The unit's parameters beside the all-gather buffer they were copied out of, which is kept until the next unit's
    copy-out (_fsdp_param_group.py:455-464); the previous one's while this one's is filled."""
    if made.ranks == 1:
        return made.element * mine.numel
    shard = mine.numel // made.ranks
    own = max(2 * mine.numel, before.numel + mine.numel + shard)
    return made.element * (own if reshards else total + own - mine.numel)


def _backward(made: Plan, mine: Group, before: Group, head: Group, total: int, reshards: bool, is_head: bool) -> int:
    """The unit's parameters and the next one's all-gather buffer, filled ahead (`_backward_prefetch`)."""
    if not reshards:
        return made.element * total
    ahead = before.numel if made.ranks > 1 else 0
    return made.element * (mine.numel + ahead + (0 if is_head else 0 * head.numel))


def _live(run: Run, made: Plan, mine: Group, after: Group) -> int:
    """The unit's whole gradients, beside the reduce-scatter input of the unit before it in backward, which is kept
    until this one is reduced (:640-660); or beside its own input being filled."""
    reduce = reduce_element(run, made.element)
    return made.element * mine.trainable + reduce * after.trainable
