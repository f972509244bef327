"""fully_shard: every parameter split along its first dimension (torch 2.13 torch/distributed/fsdp/_fully_shard)."""

from __future__ import annotations

import memlint.memory.sharding.packed_experts as packed_experts
from memlint.memory.sharding.fsdp.plan import ParameterGroup, WrapPlan, is_left_whole, merged
from memlint.memory.sharding.fsdp.state import accumulates, earlier_shards, reduce_element, sharded_state
from memlint.memory.sharding.unsharded import weight_bytes
from memlint.memory.sharding.zero.layout import tied_elements, tied_gradient_elements
from memlint.memory.values import ModelState, Moment, Unit, UnitState
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> ModelState:
    """The model state on one rank: shards, gathered parameters with their buffers, gradients until they are reduced."""
    state = sharded_state(run, units, plan)
    walk = _walk(run, units)(run, units, plan)
    largest = max(group.numel for group in walk.groups)
    weights = state.shards + (_left_whole(run, units) or packed_experts.whole_constants(run, units, plan.ranks))
    return ModelState(
        weights=weights,
        optimizer_states=state.states,
        gradients_resident=walk.unreduced() if walk.accumulates else earlier_shards(run, plan.master * state.trainable),
        communication=0,
        units=tuple(walk.unit(index) for index in range(len(units))),
        gradients_at_step=0 if run.parallelism.fsdp.cpu_offload else plan.master * state.trainable,
        step_temporaries=state.step_temporaries,
        save_temporaries=_saving(run, units, plan),
        load_peak=max(weights + plan.master * largest, _whole_on_each_rank(run, units)),
        host_bytes=state.host,
        gathered_at_loss=walk.gathered_at_loss() + walk.all_gather_buffer_at_loss(),
        gathered_at_loss_backward=walk.gathered_at_loss() + walk.prefetched_at_loss(),
    )


def _walk(run: Run, units: tuple[Unit, ...]) -> type[_Groups]:
    if run.parallelism.fsdp.root_holds_ends:
        if run.parallelism.fsdp.wrap == "none":
            return _Groups
        apart = run.parallelism.fsdp.embedding_apart and not tied_elements(run, units)
        return _RootHoldsTail if apart else _RootHoldsEnds
    return _RootHoldsLayers if _has_embedding_and_tail_alone(run, units) else _Groups


def _left_whole(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of packed weights and their scales that FSDP2 does not manage: whole on each card, offload or not."""
    return sum(
        tensor.stored_bytes * tensor.copies * unit.repeat
        for unit in units
        for tensor in unit.tensors
        if is_left_whole(run, tensor)
    )


def _whole_on_each_rank(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes on a card before anything is divided: of the whole model where each rank loads it there, and while experts
    are quantised there (axolotl 0.19.0 loaders/model.py:708: each rank loads onto its own card); else 0."""
    whole = sum(weight_bytes(unit) * unit.repeat for unit in units)
    return whole if run.parallelism.fsdp.loads_whole else packed_experts.loading_peak(run, whole, units)


_NO_SYNC_SINCE = (1, 11)
_TAIL_APART_SINCE = (1, 14)


def _has_embedding_and_tail_alone(run: Run, units: tuple[Unit, ...]) -> bool:
    """Whether nothing but the embedding and the final norm with the head has a group of its own: accelerate makes these
    whatever the wrap policy is (1.14.0 utils/fsdp_utils.py:755-768), and all layers are left to the root."""
    older = () < run.stack.accelerate < _TAIL_APART_SINCE
    return run.parallelism.fsdp.wrap == "none" and not older and len(units) > 2


def _accumulates_unreduced(run: Run) -> bool:
    """Whether an accumulation keeps unsharded gradients until the last backward of a step. Before accelerate 1.11
    `no_sync` did nothing under FSDP2 (accelerator.py:1164), and each backward reduced its own gradients."""
    older = () < run.stack.accelerate < _NO_SYNC_SINCE
    return accumulates(run) and not older


def _saving(run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> int:
    """Bytes gathered for a full state dict: tensor by tensor, each with the buffer of its all-gather."""
    if not run.saving.gathers_full_weights:
        return 0
    return 2 * plan.master * max(t.numel for unit in units for t in unit.tensors)


class _Groups:
    """The parameter groups in the order of the forward, and what each holds at each moment.

    accelerate gives the embedding a group of its own and the final norm and head another one, which stays gathered from
    the forward to the backward (utils/fsdp_utils.py:857-879); with tied embeddings the embedding belongs to the latter,
    gathered from the start. Without a wrap policy the whole model was one group before accelerate 1.14.
    """

    def __init__(self, run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> None:
        self.plan = plan
        self.units = units
        fsdp = run.parallelism.fsdp
        self.accumulates = _accumulates_unreduced(run)
        self.offloads = fsdp.cpu_offload
        self.has_shards = earlier_shards(run, 1) > 0
        self.reshards = fsdp.reshard_after_forward
        self.root_reshards = fsdp.root_reshards and fsdp.reshard_after_forward
        self.hybrid = fsdp.strategy.lstrip("_").startswith("HYBRID")
        self.reduce = reduce_element(run, plan.element)
        self.single_group = fsdp.wrap == "none"
        self.groups = self._groups()
        self.total = merged((group, unit.repeat) for group, unit in zip(self.groups, units, strict=True)).numel
        self.tied_elements = tied_elements(run, units)
        self.tied_gradient = tied_gradient_elements(run, units)

    def _groups(self) -> list[ParameterGroup]:
        wrapped, outside = self.plan.wrapped, self.plan.unwrapped
        if self.single_group:
            whole = merged((rest, unit.repeat) for rest, unit in zip(outside, self.units, strict=True))
            return [whole, *[ParameterGroup()] * (len(self.units) - 1)]
        return [
            merged([(g, 1) for g in inner]) if inner else rest for inner, rest in zip(wrapped, outside, strict=True)
        ]

    def unreduced(self) -> int:
        """Bytes of all gradients: without gradient sync they stay unsharded, in the reduce dtype (_fsdp_param.py,
        to_accumulated_grad_if_needed)."""
        return self._accumulated(merged((g, u.repeat) for g, u in zip(self.groups, self.units, strict=True)))

    def _accumulated(self, group: ParameterGroup) -> int:
        return max(self.plan.element, self.reduce) * group.trainable

    def unit(self, index: int) -> UnitState:
        current = self.groups[index]
        first = self.units[index].repeat == 1
        before = (self.groups[index - 1] if index else ParameterGroup()) if first else current
        after = (self.groups[index + 1] if index + 1 < len(self.groups) else ParameterGroup()) if first else current
        kept = self._kept_after_backward(current, index)
        live = self.reduce * after.trainable
        if index == len(self.units) - 1 and index:  # in other units it is one of their activations
            live += self.plan.element * current.largest_tensor
        return UnitState(
            gathered_forward=self.plan.element * self._forward(current, index),
            gathered_backward=self.plan.element * self._backward(current, before, index),
            gradient_live=live,
            gradient_kept=kept,
            gradient_end=self._while_reduced(current, before, index),
            gathered_entering=self.plan.element * self._entering(current, before, index),
            moments=self._moments(current, index, live),
        )

    def _moments(self, current: ParameterGroup, index: int, live: int) -> tuple[Moment, ...]:
        """For each of several equal units, where the one behind them has a larger gradient: its reduce-scatter input
        stays beside the backward of the last of them, until that reduces its own (_fsdp_param_group.py,
        `reduce_scatter_state`)."""
        repeat, behind = self.units[index].repeat, self.groups[index + 1 : index + 2]
        if repeat == 1 or self.single_group or not behind or behind[0].trainable <= current.trainable:
            return ()
        kept, end = self._kept_after_backward(current, index), self._while_reduced(current, current, index)
        lives = (self.reduce * behind[0].trainable, *[live] * (repeat - 1))
        return tuple(Moment(one + number * kept, end + number * kept) for number, one in enumerate(lives))

    def _forward(self, current: ParameterGroup, index: int) -> int:
        """Elements gathered in the unit's forward: its parameters, and the all-gather buffer that they were copied
        from, which stays until the next unit's copy-out (_fsdp_param_group.py:476-485)."""
        others = self.tied_elements if index else 0
        if not self.reshards:
            others = self.total - current.numel
        if self.single_group:
            others, current = 0, self.groups[0]
        return others + current.numel * (1 if self.plan.ranks == 1 else 2)

    def _entering(self, current: ParameterGroup, before: ParameterGroup, index: int) -> int:
        """Elements gathered when the unit's parameters are copied out, before it computes: the previous unit's buffer
        is still there, since a local variable refers to it (_fsdp_param_group.py:430, `prev_all_gather_state`)."""
        held = 0 if self.plan.ranks == 1 or self.single_group else before.numel
        return self._forward(current, index) + held

    def _backward(self, current: ParameterGroup, before: ParameterGroup, index: int) -> int:
        """Elements gathered in the unit's backward: its parameters and the prefetched all-gather buffer of the unit
        that runs next (`_backward_prefetch`)."""
        if self.single_group:
            return self.groups[0].numel
        if not self.reshards:
            return self.total
        first = index == 1 and self.units[index].repeat == 1  # before it there is the embedding alone
        prefetched = 0 if self.plan.ranks == 1 or (self.tied_elements and first) else before.numel
        return current.numel + prefetched + (self.tied_elements if index else 0)

    def _kept_after_backward(self, current: ParameterGroup, index: int) -> int:
        """Bytes that the unit's backward leaves, or frees where negative: its reduced gradients, what
        `all_reduce_input` holds of them in hybrid sharding until the end (_fsdp_collectives.py, foreach_reduce), less
        its parameters where they were not resharded after the forward."""
        share = current.trainable // self.plan.ranks
        kept = 0 if self.offloads or self.has_shards else self.plan.master * share
        if self.hybrid and self.reduce != self.plan.master:
            kept += self.reduce * share
        if self.accumulates:
            kept -= self._accumulated(current)
        if not self.reshards and not self.single_group:
            kept -= self.plan.element * current.numel
        if index == len(self.units) - 1:
            kept += self.plan.element * self.tied_gradient
        return kept

    def _while_reduced(self, current: ParameterGroup, before: ParameterGroup, index: int) -> int:
        """Bytes while the unit's gradients are reduced, beyond the gathered parameters that `_backward` counts: these
        are freed by then.

        First the unsharded gradients and the reduce-scatter input that they are copied to. Then that input, the output,
        the reduced gradient and, held by a loop variable, the unsharded gradient of the last tensor (foreach_reduce).
        """
        freed = self.plan.element * (self.groups[0].numel if self.single_group else current.numel)
        filling = (self.plan.element + self.reduce) * current.trainable
        share = current.trainable // self.plan.ranks
        casts = self.plan.master * share if self.reduce != self.plan.master else 0
        reducing = self.reduce * (current.trainable + share) + casts + self.plan.element * current.last_tensor
        return max(filling, reducing) - freed

    def gathered_at_loss(self) -> int:
        """Bytes of parameters gathered while the loss runs: those of norm and head, or all without resharding."""
        if self.single_group or not self.reshards:
            return self.plan.element * self.total
        return self.plan.element * (self.tied_elements + self.groups[-1].numel)

    def prefetched_at_loss(self) -> int:
        """Bytes of an all-gather buffer that is there when the loss's backward begins."""
        return 0

    def all_gather_buffer_at_loss(self) -> int:
        """Bytes of the last all-gather buffer, which the root frees when its forward ends."""
        if self.plan.ranks == 1:
            return 0
        last = (
            self.total if self.single_group else self.groups[-2].numel if self.tied_elements else self.groups[-1].numel
        )
        return self.plan.element * last


class _RootHoldsEnds(_Groups):
    """`fully_shard` of each layer and then of the model: embedding, final norm and head are the root's.

    The root is gathered from the start of the forward, and not resharded after it (torch 2.13 _fully_shard.py,
    `reshard_after_forward`). Its gradients stay whole until the backward has ended (_fsdp_state.py,
    _root_post_backward_final_callback), those of norm and head from the beginning.
    """

    def __init__(self, run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> None:
        super().__init__(run, units, plan)
        self.tail = plan.unwrapped[-1]
        self.root = merged([(plan.unwrapped[0], 1), (self.tail, 1)])
        self.groups = [self.root, *self.groups[1:-1], ParameterGroup()]
        self.tied_elements = self.root.numel

    def unit(self, index: int) -> UnitState:
        found, of_tail = super().unit(index), self.plan.element * self.tail.trained
        if index == 0:
            freed = 0 if self.accumulates else of_tail
            end = found.gradient_end - of_tail
            return found._replace(gradient_kept=found.gradient_kept - freed, gradient_end=end)
        if index < len(self.units) - 1:
            return found
        live = found.gradient_live + self.plan.element * self.tail.largest_tensor
        kept = found.gradient_kept + (0 if self.accumulates else of_tail)
        return found._replace(gradient_live=live, gradient_kept=kept)

    def gathered_at_loss(self) -> int:
        return 0 if self.root_reshards else super().gathered_at_loss()

    def all_gather_buffer_at_loss(self) -> int:
        return 0 if self.root_reshards else super().all_gather_buffer_at_loss()

    def prefetched_at_loss(self) -> int:
        """The loss is one of the root's outputs: with its gradient the last layer is prefetched. A loss outside of a
        model that is divided again is none: the root is gathered when the logits' gradient is there."""
        return 0 if self.root_reshards else self._last_layer()

    def _last_layer(self) -> int:
        return self.plan.element * self.groups[-2].numel if self.reshards and self.plan.ranks > 1 else 0

    def _forward(self, current: ParameterGroup, index: int) -> int:
        """As for other groups. Behind the last layer nothing is copied out, so that its buffer stays."""
        is_tail = index == len(self.units) - 1 and self.reshards and self.plan.ranks > 1
        return super()._forward(current, index) + (self.groups[-2].numel if is_tail else 0)


class _RootHoldsTail(_RootHoldsEnds):
    """`fully_shard` of each layer and of the embedding, and then of the model: final norm and head are the root's,
    gathered from the start of the forward until the backward has ended, when their gradients are reduced."""

    def __init__(self, run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> None:
        super().__init__(run, units, plan)
        self.root = self.tail
        self.groups = [plan.unwrapped[0], *self.groups[1:-1], ParameterGroup()]
        self.tied_elements = 0

    def unreduced(self) -> int:
        return super().unreduced() + self._accumulated(self.tail)

    def unit(self, index: int) -> UnitState:
        if index:
            return super().unit(index)
        found, of_tail = _Groups.unit(self, 0), self.plan.element * self.tail.trained
        freed = 0 if self.accumulates else of_tail
        embedding = self.groups[0]
        reducing = self._while_reduced(self.tail, ParameterGroup(), 0) - of_tail - self.plan.element * embedding.numel
        return found._replace(
            gradient_kept=found.gradient_kept + self._kept_after_backward(self.tail, 0) - freed,
            gradient_end=max(found.gradient_end, found.gradient_kept + reducing),
        )

    def _forward(self, current: ParameterGroup, index: int) -> int:
        return super()._forward(current, index) + (self.root.numel if self.reshards else 0)

    def _entering(self, current: ParameterGroup, before: ParameterGroup, index: int) -> int:
        return super()._entering(current, before if index else self.root, index)

    def _backward(self, current: ParameterGroup, before: ParameterGroup, index: int) -> int:
        return super()._backward(current, before, index) + (self.root.numel if self.reshards else 0)

    def gathered_at_loss(self) -> int:
        held = self.root.numel if self.reshards else self.total
        return 0 if self.root_reshards else self.plan.element * held

    def all_gather_buffer_at_loss(self) -> int:
        return 0 if self.plan.ranks == 1 or self.root_reshards else self.plan.element * self.groups[-2].numel


class _RootHoldsLayers(_Groups):
    """The groups without a wrap policy: the embedding, norm and head, and the root with all layers.

    The buffer that the tail's gradients were reduced in stays until the next group's are
    (_fsdp_param_group.py:648). The root is gathered before the embedding and stays so until the backward has ended, as
    its inputs need no gradient (torch 2.13 _fully_shard/_fsdp_state.py, _root_post_backward_final_callback). Its
    gradients stay whole until then.
    """

    def __init__(self, run: Run, units: tuple[Unit, ...], plan: WrapPlan) -> None:
        super().__init__(run, units, plan)
        self.single_group = False
        inner = list(zip(plan.unwrapped, units, strict=True))[1:-1]
        self.root = merged((rest, unit.repeat) for rest, unit in inner)
        self.embedding, self.tail = self._ends()
        self.kept_embedding = 0 if self.reshards else self.embedding.numel
        self.groups = [self.embedding, self.root, *[ParameterGroup()] * (len(units) - 3), self.tail]

    def _groups(self) -> list[ParameterGroup]:
        return list(self.plan.unwrapped)

    def _ends(self) -> tuple[ParameterGroup, ParameterGroup]:
        """The groups of the embedding and of norm and head; a tied embedding belongs to the latter."""
        first, last = self.plan.unwrapped[0], self.plan.unwrapped[-1]
        return (ParameterGroup(), merged([(last, 1), (first, 1)])) if self.tied_elements else (first, last)

    def unit(self, index: int) -> UnitState:
        element = self.plan.element
        is_tail, is_embedding = index == len(self.units) - 1, index == 0
        own = self.plan.unwrapped[index]
        group = self.tail if is_tail else self.embedding if is_embedding else ParameterGroup()
        kept = self._kept_after_backward(group, index) if group.numel else 0
        if not self.reshards:  # `_gathered_backward` knows that the group is freed
            kept += element * group.numel
        if not is_tail and not is_embedding and not self.accumulates:
            kept = element * own.trainable
        return UnitState(
            gathered_forward=element * self._gathered_forward(is_embedding, is_tail),
            gathered_backward=element * self._gathered_backward(is_tail),
            gradient_live=element * own.largest_tensor if is_tail else self.reduce * self.tail.trainable,
            gradient_kept=kept,
            gradient_end=self._end(is_embedding, group, own),
        )

    def unreduced(self) -> int:
        return sum(map(self._accumulated, (self.embedding, self.root, self.tail)))

    def _gathered_forward(self, is_embedding: bool, is_tail: bool) -> int:
        """Elements: a buffer of an all-gather stays until the next one is copied out."""
        embedding, tail, root = self.embedding.numel, self.tail.numel, self.root.numel
        held = root + self.tied_elements
        if self.plan.ranks == 1:
            return held + (embedding if is_embedding else self.kept_embedding)
        if is_embedding:
            return 2 * root + 2 * (embedding or tail)
        if is_tail and not self.tied_elements:
            return root + self.kept_embedding + 2 * tail
        return held + self.kept_embedding + (embedding or tail)

    def _gathered_backward(self, is_tail: bool) -> int:
        """Elements: the embedding is prefetched when the backward begins."""
        held = self.root.numel + self.embedding.numel + self.tied_elements
        return held + (self.tail.numel - self.tied_elements if is_tail else 0)

    def _end(self, is_embedding: bool, group: ParameterGroup, own: ParameterGroup) -> int:
        """Bytes while gradients are reduced: a group's, and at the end the root's."""
        if not is_embedding:
            return self._while_reduced(group, ParameterGroup(), 0) if group.numel else self.plan.element * own.trainable
        freed = self.plan.element * (self.root.numel + self.embedding.numel)
        last = self.plan.master * (self.embedding.trainable // self.plan.ranks)
        share = self.root.trainable // self.plan.ranks
        casts = self.plan.master * share if self.reduce != self.plan.master else 0
        reducing = self.reduce * (self.root.trainable + share) + casts - self.plan.element * self.root.trainable
        own_reduction = self._while_reduced(group, ParameterGroup(), 0) if group.numel else 0
        return max(own_reduction, last - freed + max(self.reduce * self.root.trainable, reducing))

    def gathered_at_loss(self) -> int:
        return self.plan.element * (self.root.numel + self.tail.numel + self.kept_embedding)

    def all_gather_buffer_at_loss(self) -> int:
        return self.plan.element * (0 if self.tied_elements or self.plan.ranks == 1 else self.tail.numel)
