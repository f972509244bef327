"""ZeRO stages 1 and 2: weights on every rank; optimizer states, and in stage 2 reduced gradients, partitioned.

deepspeed 0.19.8 runtime/zero/stage_1_and_2.py unless said otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from memlint.memory.sharding.zero.host import partition_host_bytes
from memlint.memory.sharding.zero.layout import (
    ZeroLayout,
    flat_partition,
    is_quantized,
    ranks_per_node,
    required_setting,
    tied_gradient_elements,
)
from memlint.memory.sharding.zero.reduction import ReductionSettings, reduction_moments
from memlint.memory.state import optimizers as optimizer
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run

_RANKS_EXAMINED = 64  # beyond, partitions are smaller than the first tensors and look alike
_ALLREDUCE_BUCKET = 500_000_000  # elements; MEMORY_OPT_ALLREDUCE_SIZE, runtime/engine.py


def at_rest(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    """The model state on one rank, without its units but for an engine that partitions no gradients."""
    if layout.accumulation == 4 and layout.element == 2 and run.parallelism.zero.stage == 1 and not _offloads(run):
        return _bf16_optimizer(run, units, layout)
    return _partitioned(run, units, layout)


def with_units(run: Run, units: tuple[Unit, ...], layout: ZeroLayout, state: ModelState) -> ModelState:
    """The state with what a backward makes: gradients pass through the reduction bucket into the rank's partition."""
    return state._replace(units=_backward(run, units, layout))


def _partitioned(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    shares = [_partition_elements(group, layout.ranks) for group in layout.groups]
    offloads = _offloads(run)
    weights = engine_weights(units, layout.element)
    owned = sum(_owned_elements(group, layout.ranks) for group in layout.groups)
    optimizer_memory = [optimizer.memory(run, flat_partition(share)) for share in shares]
    master = layout.master * sum(shares)
    resident = _resident_gradients(run, layout, owned, sum(shares))
    states = sum(h.states for h in optimizer_memory)
    host_states = sum(h.host for h in optimizer_memory)  # those of a CPU optimizer are on the host by themselves
    offloaded = partition_host_bytes(run, layout, shares, states + host_states, owned) if offloads else host_states
    scratch = layout.element * layout.largest if offloads else 0  # temp_grad_buffer_for_gpu_offload (:659)
    step, temporaries = (
        (0, 0) if offloads else _step_memory(run, layout, shares, owned, [h.step_temporaries for h in optimizer_memory])
    )
    return ModelState(
        weights=weights,
        optimizer_states=0 if offloads else master + states,
        gradients_resident=resident + _resident_buffers(run, layout),
        communication=scratch,
        units=(),
        gradients_at_step=step,
        step_temporaries=temporaries,
        communication_at_step=scratch,
        load_peak=weights,  # flattened in place: on the host when the card has no room for the copy (:453-462)
        host_bytes=offloaded * ranks_per_node(run),
    )


def _resident_gradients(run: Run, layout: ZeroLayout, owned: int, shares: int) -> int:
    """Bytes of gradients that earlier micro steps of an accumulation left: all of them in stage 1, in stage 2 the
    rank's own, which `grads_in_partition` is added to (:1045), or one fp32 share for all micro steps (:1259-1306)."""
    if not _accumulates(run):
        return 0
    if run.parallelism.zero.stage == 1:
        return layout.element * layout.trainable
    if _offloads(run):
        return 0
    return 4 * shares if layout.accumulation == 4 and layout.element == 2 else layout.element * owned


def _backward(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> tuple[UnitState, ...]:
    shared = layout.element * tied_gradient_elements(run, units)
    return tuple(
        UnitState(moments=found) for found in reduction_moments(units, _reduction_settings(run, layout), shared)
    )


def _reduction_settings(run: Run, layout: ZeroLayout) -> ReductionSettings:
    zero = run.parallelism.zero
    return ReductionSettings(
        element=layout.element,
        ranks=layout.ranks,
        bucket=required_setting(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size"),
        stage=1 if zero.stage == 1 else 2,
        overlaps=bool(zero.overlap_comm),
        contiguous=zero.contiguous_gradients,
        scatters=zero.reduce_scatter and layout.ranks > 1,
        shares=tuple(_partition_elements(group, layout.ranks) for group in layout.groups),
        accumulates=_accumulates(run),
        wide=layout.accumulation == 4 and layout.element == 2,
        offloads=_offloads(run),
    )


def _resident_buffers(run: Run, layout: ZeroLayout) -> int:
    """Bytes of reduction buckets that stay between micro steps: stage 1 reduces, and so frees them, only at the end
    of an accumulation (engine.py:3084-3092)."""
    zero = run.parallelism.zero
    if zero.stage != 1 or not zero.contiguous_gradients or not _accumulates(run):
        return 0
    bucket = required_setting(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    return layout.element * bucket * (2 if zero.overlap_comm else 1)


def _step_memory(
    run: Run, layout: ZeroLayout, shares: list[int], owned: int, temporaries: list[int]
) -> tuple[int, int]:
    """Bytes at the optimizer step: the rank's gradients in the master's dtype, and what is allocated beside them.

    That is the norm in fp64 (:2684), then for each group the flat copy and its conversion (:3112-3118), then the
    optimizer's own temporaries. With contiguous gradients those of all groups are views of one buffer
    (`grads_in_partition`). It lives until the last group is flattened, so through the update of the first one.
    """
    share = max(shares, default=0)
    gradient = layout.master * share
    if layout.accumulation == 4 and layout.element == 2:  # already flat and fp32
        return max(gradient, 4 * sum(shares)), max(8 * layout.largest, max(temporaries, default=0))
    own = layout.element * owned
    converted = layout.element * share if layout.element != layout.master else 0
    stays = own if len(shares) > 1 and run.parallelism.zero.contiguous_gradients else 0
    updating = max(temporaries, default=0) + stays
    return gradient, max(own + converted, own + 8 * layout.largest - gradient, updating)


def _bf16_optimizer(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    """Stage 1 with bf16 weights and fp32 accumulation, which is an engine of its own (engine.py:2305,
    bf16_optimizer.py).

    All gradients are allocated in fp32 from the start. Those in half precision stay beside them until the step
    (`immediate_grad_update` is off). They are averaged through a flat fp32 copy that is cast to the communication dtype
    (engine.py:3073).
    """
    shares = [_partition_elements(group, layout.ranks) for group in layout.groups]
    optimizer_memory = [optimizer.memory(run, flat_partition(share)) for share in shares]
    weights = engine_weights(units, layout.element)
    half = layout.element * layout.trainable
    averaging = (4 if layout.trainable <= _ALLREDUCE_BUCKET else 0) * layout.trainable + half if layout.ranks > 1 else 0
    accumulates = _accumulates(run)
    states = [whole_gradients(unit, layout.element, accumulates) for unit in units]
    states[0] = states[0]._replace(gradient_end=states[0].gradient_end + averaging)
    return ModelState(
        weights=weights,
        optimizer_states=4 * sum(shares) + sum(h.states for h in optimizer_memory),
        gradients_resident=4 * layout.trainable + (half if accumulates else 0),
        communication=0,
        units=tuple(states),
        gradients_at_step=4 * layout.trainable + half,
        step_temporaries=sum(h.step_temporaries for h in optimizer_memory),
        load_peak=weights + half,  # flattened beside the parameters (bf16_optimizer.py:167)
    )


def whole_gradients(unit: Unit, element: int, accumulates: bool) -> UnitState:
    """A unit whose gradients stay unsharded on this rank: one matrix's at the peak of its activations, all at its end.
    In an accumulation they are resident already, and only the one that is being added counts."""
    matrix = element * _largest(unit)
    whole = 0 if accumulates else element * _trainable(unit)
    return UnitState(gradient_live=matrix, gradient_kept=whole, gradient_end=max(matrix, whole))


def engine_weights(units: tuple[Unit, ...], element: int) -> int:
    """Bytes of all weights as the engine casts them; quantised ones as stored."""
    return sum(
        (t.stored_bytes if is_quantized(t) else element * t.numel) * t.copies * unit.repeat
        for unit in units
        for t in unit.tensors
    )


def _partition_elements(group: tuple[int, ...], ranks: int) -> int:
    """Elements of one rank's flat partition, padded to 4 bytes times the ranks (:441)."""
    alignment = 2 * ranks
    return -(-sum(group) // alignment) * 2


def _owned_elements(group: tuple[int, ...], ranks: int, least: int = 0) -> int:
    """Elements of all tensors (larger than `least`) that overlap a rank's partition, for the rank with most. Where a
    tensor crosses the border, both ranks keep its whole gradient (`grads_in_partition`, :2192)."""
    share = _partition_elements(group, ranks)
    ends = list(accumulate(group))
    counted = ends if not least else list(accumulate(numel if numel > least else 0 for numel in group))
    most = 0
    for rank in range(min(ranks, _RANKS_EXAMINED)):
        first = bisect_right(ends, rank * share)
        last = min(bisect_left(ends, (rank + 1) * share), len(ends) - 1)
        if first < len(ends):
            most = max(most, counted[last] - (counted[first - 1] if first else 0))
    return most


def _trainable(unit: Unit) -> int:
    return sum(t.numel * t.copies for t in unit.tensors if t.trainable)


def _largest(unit: Unit) -> int:
    return max((t.numel for t in unit.tensors if t.trainable), default=0)


def _offloads(run: Run) -> bool:
    return run.offload.optimizer != "none"


def _accumulates(run: Run) -> bool:
    steps = run.batch.gradient_accumulation_steps
    return isinstance(steps, int) and steps > 1
