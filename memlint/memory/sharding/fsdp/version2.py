"""fully_shard: every parameter split along its first dimension (torch 2.13 torch/distributed/fsdp/_fully_shard)."""

from __future__ import annotations

from memlint.memory.sharding.fsdp.plan import Group, WrapPlan, joined
from memlint.memory.sharding.fsdp.state import accumulates, kept, reduce_element
from memlint.memory.sharding.zero.layout import tied_elements, tied_gradient
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...], made: WrapPlan) -> ModelState:
    """Shards; per unit the gathered parameters, the buffers they come through and gradients until reduced."""
    state = kept(run, units, made)
    walk = _Walk(run, units, made)
    largest = max(group.numel for group in walk.groups)
    return ModelState(
        weights=state.shards,
        optimizer_states=state.states,
        gradients_resident=walk.unreduced() if walk.accumulates else 0,
        communication=0,
        units=tuple(walk.unit(index) for index in range(len(units))),
        gradients_at_step=0 if run.parallelism.fsdp.cpu_offload else made.master * state.trainable,
        step_temporaries=state.step_temporaries,
        save_temporaries=_saving(run, units, made),
        load_peak=state.shards + made.master * largest,
        host_bytes=state.host,
        gathered_at_loss=walk.at_loss() + walk.copied_at_loss(),
        gathered_at_loss_backward=walk.at_loss(),
    )


_NO_SYNC = (1, 11)


def _keeps_unreduced(run: Run) -> bool:
    """Whether gradients wait whole for the last backward of a step: before accelerate 1.11 `no_sync` knew no FSDP2
    (accelerator.py:1164) and each backward reduced its own."""
    older = () < run.stack.accelerate < _NO_SYNC
    return accumulates(run) and not older


def _saving(run: Run, units: tuple[Unit, ...], made: WrapPlan) -> int:
    """A full state dict is gathered tensor by tensor, each with the buffer of its all-gather."""
    if not run.saving.gathers_full_weights:
        return 0
    return 2 * made.master * max(t.numel for unit in units for t in unit.tensors)


class _Walk:
    """The groups in forward order.

    accelerate gives the embedding a group of its own and the final norm and head another one, which stays gathered from
    the forward to the backward (utils/fsdp_utils.py:857-879); with tied embeddings the embedding belongs to the latter,
    gathered from the start. Without a wrap policy the whole model is one group.
    """

    def __init__(self, run: Run, units: tuple[Unit, ...], made: WrapPlan) -> None:
        self.made = made
        self.units = units
        fsdp = run.parallelism.fsdp
        self.accumulates = _keeps_unreduced(run)
        self.offloads = fsdp.cpu_offload
        self.reshards = fsdp.reshard_after_forward
        self.hybrid = fsdp.strategy.lstrip("_").startswith("HYBRID")
        self.reduce = reduce_element(run, made.element)
        self.one = fsdp.wrap == "none"
        self.groups = self._groups()
        self.total = joined((group, unit.repeat) for group, unit in zip(self.groups, units, strict=True)).numel
        self.tied = tied_elements(run, units)
        self.tied_gradient = tied_gradient(run, units)

    def _groups(self) -> list[Group]:
        wrapped, outside = self.made.wrapped, self.made.outside
        if self.one:
            whole = joined((rest, unit.repeat) for rest, unit in zip(outside, self.units, strict=True))
            return [whole, *[Group()] * (len(self.units) - 1)]
        return [
            joined([(g, 1) for g in inner]) if inner else rest for inner, rest in zip(wrapped, outside, strict=True)
        ]

    def unreduced(self) -> int:
        """Without gradient sync every gradient stays whole, in the reduce dtype (_fsdp_param.py,
        to_accumulated_grad_if_needed)."""
        return self._accumulated(joined((g, u.repeat) for g, u in zip(self.groups, self.units, strict=True)))

    def _accumulated(self, group: Group) -> int:
        return max(self.made.element, self.reduce) * group.trainable

    def unit(self, index: int) -> UnitState:
        mine = self.groups[index]
        first = self.units[index].repeat == 1
        before = (self.groups[index - 1] if index else Group()) if first else mine
        after = (self.groups[index + 1] if index + 1 < len(self.groups) else Group()) if first else mine
        stays = self._stays(mine, index)
        live = self.made.element * (mine.largest if len(self.units) > 1 else 0) + self.reduce * after.trainable
        return UnitState(
            gathered_forward=self.made.element * self._forward(mine, before, index),
            gathered_backward=self.made.element * self._backward(mine, before, index),
            gradient_live=live,
            gradient_kept=stays,
            gradient_end=self._end(mine, before, index),
        )

    def _forward(self, mine: Group, before: Group, index: int) -> int:
        """The unit's parameters beside the all-gather buffer they were copied out of, kept until the next unit's
        copy-out (_fsdp_param_group.py:476-485); or the previous one's while this one's is filled."""
        others = self.tied if index else 0
        if not self.reshards:
            others = self.total - mine.numel
        if self.one:
            others, mine = 0, self.groups[0]
        if self.made.ranks == 1:
            return others + mine.numel
        return others + max(2 * mine.numel, before.numel + mine.numel + mine.numel // self.made.ranks)

    def _backward(self, mine: Group, before: Group, index: int) -> int:
        """The unit's parameters and the next one's all-gather buffer, filled ahead (`_backward_prefetch`)."""
        if self.one:
            return self.groups[0].numel
        if not self.reshards:
            return self.total
        ahead = 0 if self.made.ranks == 1 or (self.tied and index == 1) else before.numel
        return mine.numel + ahead + (self.tied if index else 0)

    def _stays(self, mine: Group, index: int) -> int:
        """Bytes more (or less) once the unit's backward is over: its reduced gradients; what `all_reduce_input` holds
        of them in hybrid sharding until the end (_fsdp_collectives.py, foreach_reduce); less its parameters, if it
        kept them."""
        share = mine.trainable // self.made.ranks
        stays = 0 if self.offloads else self.made.master * share
        if self.hybrid and self.reduce != self.made.master:
            stays += self.reduce * share
        if self.accumulates:
            stays -= self._accumulated(mine)
        if not self.reshards and not self.one:
            stays -= self.made.element * mine.numel
        if index == len(self.units) - 1:
            stays += self.made.element * self.tied_gradient
        return stays

    def _end(self, mine: Group, before: Group, index: int) -> int:
        """While the unit is reduced, its parameters are freed: the whole gradients beside the reduce-scatter input
        they are copied to; then that, its output, the reduced gradient and, by a loop variable, the last tensor's whole
        gradient (foreach_reduce). Both beside the gathered parameters that `_backward` counts."""
        freed = self.made.element * (self.groups[0].numel if self.one else mine.numel)
        filling = (self.made.element + self.reduce) * mine.trainable
        share = mine.trainable // self.made.ranks
        casts = self.made.master * share if self.reduce != self.made.master else 0
        reducing = self.reduce * (mine.trainable + share) + casts + self.made.element * mine.last
        return max(filling, reducing) - freed

    def at_loss(self) -> int:
        """The tail's parameters, or all without resharding."""
        if self.one or not self.reshards:
            return self.made.element * self.total
        return self.made.element * (self.tied + self.groups[-1].numel)

    def copied_at_loss(self) -> int:
        """The last all-gather buffer, which the root frees when its forward ends."""
        if self.made.ranks == 1:
            return 0
        last = self.total if self.one else self.groups[-2].numel if self.tied else self.groups[-1].numel
        return self.made.element * last
