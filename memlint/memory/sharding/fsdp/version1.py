"""FullyShardedDataParallel: one flat parameter per wrapped module (torch 2.13 torch/distributed/fsdp)."""

from __future__ import annotations

import memlint.memory.sharding.packed_experts as packed_experts
from memlint.memory.sharding.fsdp.plan import ParameterGroup, WrapPlan, is_adapted, merged
from memlint.memory.sharding.fsdp.state import ShardedState, accumulates, earlier_shards, reduce_element, sharded_state
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run

_NOT_RESHARDED = ("SHARD_GRAD_OP", "HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2")


def place(run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> ModelState:
    """The model state on one rank: shards, gathered units, and gradients that stay unsharded until they are reduced."""
    state = sharded_state(run, units, plan)
    offloads = run.parallelism.fsdp.cpu_offload
    gradients = 0 if offloads else plan.master * state.trainable
    resident = _unreduced(units, plan) if accumulates(run) else earlier_shards(run, plan.master * state.trainable)
    root = merged((rest, unit.repeat) for rest, unit in zip(plan.unwrapped, units, strict=True))
    held = 0 if _in_place(run, plan) else _held_by_head(plan, root)
    at_loss = plan.element * (held + _not_resharded(run, units, plan, root))
    return ModelState(
        weights=state.shards + packed_experts.whole_constants(run, units, plan.ranks),
        optimizer_states=state.states,
        gradients_resident=resident,
        communication=0,
        units=_units(run, units, plan, root),
        gradients_at_step=gradients,
        step_temporaries=state.step_temporaries,
        save_temporaries=_save(run, plan, root),
        load_peak=_load(run, plan, state, root),
        gathered_at_loss=at_loss,
        gathered_at_loss_backward=at_loss + plan.element * _prefetched_by_root(run, plan, root),
        host_bytes=state.host,
    )


def _unreduced(units: tuple[Unit, ...], plan: WrapPlan) -> int:
    """`no_sync` leaves every unit's gradient whole, in the compute dtype (_runtime_utils.py:743)."""
    total = 0
    for unit, groups, rest in zip(units, plan.wrapped, plan.unwrapped, strict=True):
        total += (sum(g.trainable for g in groups) + rest.trainable) * unit.repeat
    return plan.element * total


def _held_by_head(plan: WrapPlan, root: ParameterGroup) -> int:
    """Elements that stay gathered while the head and the loss run: what is left to the root. What is left to the
    decoder was resharded when its forward ended."""
    return plan.unwrapped[-1].numel if plan.decoder_apart else root.numel


def _units(run: Run, units: tuple[Unit, ...], plan: WrapPlan, root: ParameterGroup) -> tuple[UnitState, ...]:
    all_wrapped = _gathered_elements(units, plan) - root.numel
    largest = max((g.numel for groups in plan.wrapped for g in groups), default=0)
    inner = list(zip(plan.unwrapped, units, strict=True))[: -1 if plan.decoder_apart else None]
    last = merged((rest, unit.repeat) for rest, unit in inner)  # what is flattened when the embedding is done
    states = []
    for index in range(len(units)):
        groups, rest = plan.wrapped[index], plan.unwrapped[index]
        current = max((g.numel for g in groups), default=0)
        prefetched = largest if index else 0
        is_head = index == len(units) - 1
        held = 0 if _in_place(run, plan) else _held_by_head(plan, root) if is_head else root.numel
        if is_head and plan.decoder_apart:
            prefetched = root.numel - held
        gathered = (
            plan.element * (held + _forward(run, current, largest, plan, all_wrapped)),
            plan.element * (held + _backward(run, current, prefetched, plan, all_wrapped)),
        )
        kept = _kept_after_backward(run, plan, groups, rest)
        live, end = _gradients(run, plan, groups, rest, last if index == 0 else ParameterGroup())
        live = live if is_head else 0
        states.append(UnitState(*gathered, live, kept, end))
    return tuple(states)


def _kept_after_backward(run: Run, plan: WrapPlan, groups: tuple[ParameterGroup, ...], rest: ParameterGroup) -> int:
    """Bytes that a unit's backward leaves, or frees where negative.

    It leaves the unit's reduced gradients. Gradients of the root's parameters wait for the embedding's, which comes
    last. Without resharding after the forward, the unit's parameters are freed now.
    """
    kept = plan.element * rest.trained
    has_shards = run.parallelism.fsdp.cpu_offload or earlier_shards(run, 1) > 0
    for group in groups:
        kept += 0 if has_shards else plan.master * group.trainable // plan.ranks
        kept -= plan.element * group.trainable if accumulates(run) else 0
        kept -= plan.element * group.numel if run.parallelism.fsdp.strategy in _NOT_RESHARDED else 0
    return kept


def _gathered_elements(units: tuple[Unit, ...], plan: WrapPlan) -> int:
    return sum(
        (sum(g.numel for g in groups) + rest.numel) * unit.repeat
        for unit, groups, rest in zip(units, plan.wrapped, plan.unwrapped, strict=True)
    )


def _not_resharded(run: Run, units: tuple[Unit, ...], plan: WrapPlan, root: ParameterGroup) -> int:
    if run.parallelism.fsdp.strategy not in _NOT_RESHARDED:
        return 0
    return _gathered_elements(units, plan) - root.numel


def _in_place(run: Run, plan: WrapPlan) -> bool:
    """Whether parameters are used where they are: not sharded and not cast."""
    return run.parallelism.fsdp.strategy == "NO_SHARD" and plan.master == plan.element


def _prefetched_by_root(run: Run, plan: WrapPlan, root: ParameterGroup) -> int:
    """Elements of the unit that the root prefetches before the loss's backward: the one that ran last
    (_runtime_utils.py, _pre_backward_hook)."""
    fsdp = run.parallelism.fsdp
    if fsdp.backward_prefetch != "BACKWARD_PRE" or fsdp.strategy in _NOT_RESHARDED or _in_place(run, plan):
        return 0
    if plan.decoder_apart and not plan.wrapped[-1]:
        return root.numel - plan.unwrapped[-1].numel
    last = 0 if is_adapted(run) else -1  # adapters run before the layer that they are in ends
    return next((groups[last].numel for groups in plan.wrapped[::-1] if groups), 0)


def _forward(run: Run, current: int, largest: int, plan: WrapPlan, all_wrapped: int) -> int:
    """Elements gathered beside the root's, which stay gathered from the beginning of the forward to the end of the
    backward (_runtime_utils.py, _post_forward_reshard). In mixed precision a unit's shard is cast first (`_mp_shard`).
    """
    fsdp = run.parallelism.fsdp
    casts = plan.master != plan.element
    if _in_place(run, plan):
        return 0
    if fsdp.strategy in _NOT_RESHARDED:
        return all_wrapped
    prefetched = largest if fsdp.forward_prefetch else 0
    cast = max(current, prefetched) // plan.ranks if casts and plan.ranks > 1 else 0
    return current + prefetched + cast


def _backward(run: Run, current: int, prefetched: int, plan: WrapPlan, all_wrapped: int) -> int:
    fsdp = run.parallelism.fsdp
    if fsdp.strategy in _NOT_RESHARDED or _in_place(run, plan):
        return _forward(run, current, prefetched, plan, all_wrapped)
    two = fsdp.backward_prefetch != "NONE" or _freezes_layers(plan)
    return current + (prefetched if two else 0)


def _freezes_layers(plan: WrapPlan) -> bool:
    """Whether a unit of layers is frozen: it is resharded by a hook on its input's gradient, after the hook on the same
    tensor that gathers the layer before it (_runtime_utils.py, _register_post_backward_reshard_only_hook)."""
    return any(group.numel and not group.trained for groups in plan.wrapped for group in groups)


def _gradients(
    run: Run, plan: WrapPlan, groups: tuple[ParameterGroup, ...], rest: ParameterGroup, root: ParameterGroup
) -> tuple[int, int]:
    """Bytes of unsharded gradients while the head's activations are at their peak, and at the end of a unit's backward.

    At the peak there is the gradient of one matrix; in other units it is one of their activations. At the end the
    gradients of all parameters, zeros for those that are frozen, are concatenated into that of the flat parameter (the
    backward of `split`), so that both are alive: a unit's at its end, that of `root` when the embedding is done.
    """
    element, reduce = plan.element, reduce_element(run, plan.element)
    flat = max(element, reduce)
    # Unsharded ones are then cast to the dtype of the parameter, before this is freed (_reduce_grad_no_shard).
    last = max(flat, plan.master) if run.parallelism.fsdp.strategy == "NO_SHARD" else flat
    largest = max((g.largest_tensor for g in groups), default=0)
    end = max(((element + last) * g.trainable for g in groups), default=0)
    frozen = element * (root.trainable - root.trained)
    return element * (largest + rest.trained), end + element * rest.trained + flat * root.trainable + frozen


def _save(run: Run, plan: WrapPlan, root: ParameterGroup) -> int:
    """Bytes gathered for a full state dict: the root and one unit at a time, in the dtype of the shards."""
    if not run.saving.gathers_full_weights and run.parallelism.fsdp.state_dict_type != "FULL_STATE_DICT":
        return 0
    largest = max((g.numel for groups in plan.wrapped for g in groups), default=0)
    return plan.master * (root.numel + largest)


def _load(run: Run, plan: WrapPlan, state: ShardedState, root: ParameterGroup) -> int:
    largest = max((g.numel for groups in plan.wrapped for g in groups), default=0)
    return state.shards + plan.master * max(largest, root.numel)
