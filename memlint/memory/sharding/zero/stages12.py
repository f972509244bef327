"""ZeRO stages 1 and 2: weights on every rank; optimizer states, and in stage 2 reduced gradients, partitioned.

deepspeed 0.19.8 runtime/zero/stage_1_and_2.py unless said otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from memlint.memory import optimizers as optimizer
from memlint.memory.sharding.zero.host import partition_host_bytes
from memlint.memory.sharding.zero.layout import (
    ZeroLayout,
    flat_partition,
    is_quantized,
    ranks_per_node,
    required_setting,
    tied_gradient_elements,
)
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run

_RANKS_EXAMINED = 64  # beyond, partitions are smaller than the first tensors and look alike
_ALLREDUCE_BUCKET = 500_000_000  # elements; MEMORY_OPT_ALLREDUCE_SIZE, runtime/engine.py


def place(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    """The model state on one rank. Gradients pass through the reduction bucket into the rank's partition."""
    if layout.accumulation == 4 and layout.element == 2 and run.parallelism.zero.stage == 1 and not _offloads(run):
        return _bf16_optimizer(run, units, layout)
    return _partitioned(run, units, layout)


def _partitioned(run: Run, units: tuple[Unit, ...], layout: ZeroLayout) -> ModelState:
    shares = [_partition_elements(group, layout.ranks) for group in layout.groups]
    offloads = _offloads(run)
    weights = engine_weights(units, layout.element)
    owned = sum(_owned_elements(group, layout.ranks) for group in layout.groups)
    optimizer_memory = [optimizer.memory(run, flat_partition(share)) for share in shares]
    master = layout.master * sum(shares)
    gradients = _reduced_gradients(run, layout, owned, sum(shares))
    states = sum(h.states + h.host for h in optimizer_memory)  # a CPU optimizer's are on the host by themselves
    scratch = layout.element * layout.largest if offloads else 0  # temp_grad_buffer_for_gpu_offload (:659)
    step, temporaries = (
        (0, 0) if offloads else _step_memory(layout, shares, owned, [h.step_temporaries for h in optimizer_memory])
    )
    return ModelState(
        weights=weights,
        optimizer_states=0 if offloads else master + states,
        gradients_resident=gradients.resident + _Buffers(run, layout).resident,
        communication=scratch,
        units=_backward(run, units, layout, gradients),
        gradients_at_step=step,
        step_temporaries=temporaries,
        communication_at_step=scratch,
        load_peak=weights,  # flattened in place: on the host when the card has no room for the copy (:453-462)
        host_bytes=partition_host_bytes(run, layout, shares, states, owned) * ranks_per_node(run) if offloads else 0,
    )


class _Gradients:
    """Bytes of reduced gradients, without the buckets: `resident` before a backward begins, `filled` at its end."""

    def __init__(self, resident: int, filled: int) -> None:
        self.resident = resident
        self.filled = filled


def _reduced_gradients(run: Run, layout: ZeroLayout, owned: int, shares: int) -> _Gradients:
    """What reduced gradients occupy.

    Stage 2 keeps the rank's own. In an accumulation they are there twice while a backward runs: `grads_in_partition` is
    made anew and added to the old ones (:1045). With fp32 accumulation, own gradients that are too large for the bucket
    stay beside the fp32 partition until the end (:2179-2182).
    """
    accumulates = _accumulates(run)
    whole = layout.element * layout.trainable
    bucket = required_setting(run.parallelism.zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    if run.parallelism.zero.stage == 1:
        return _stage1_gradients(run, layout, owned, whole if accumulates else 0)
    if _offloads(run):
        return _Gradients(0, 0)
    if layout.accumulation == 4 and layout.element == 2:  # one fp32 share for all micro steps (:1259-1306)
        unreduced = layout.element * sum(_owned_elements(group, layout.ranks, bucket) for group in layout.groups)
        return _Gradients(4 * shares if accumulates else 0, 4 * shares + unreduced)
    own = layout.element * owned
    return _Gradients(own if accumulates else 0, own * (2 if accumulates else 1))


def _stage1_gradients(run: Run, layout: ZeroLayout, owned: int, resident: int) -> _Gradients:
    """Stage 1 keeps all gradients. With `overlap_comm` they move into the bucket as they arrive, if they fit in it."""
    if not run.parallelism.zero.overlap_comm:
        return _Gradients(resident, layout.element * layout.trainable)
    bucket = required_setting(run.parallelism.zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    large = sum(numel for group in layout.groups for numel in group if numel > bucket)
    others = large - large // layout.ranks
    return _Gradients(resident, max(resident, layout.element * (owned + others)))


def _backward(run: Run, units: tuple[Unit, ...], layout: ZeroLayout, gradients: _Gradients) -> tuple[UnitState, ...]:
    """Buckets and the rank's own gradients are allocated when the first gradient is complete. That is the head's: while
    the logits are alive there is nothing else. A tensor larger than the bucket is reduced by itself (:1445-1449)."""
    buffers = _Buffers(run, layout)
    if run.parallelism.zero.stage == 1 and not run.parallelism.zero.overlap_comm:
        return _stage1_backward(run, units, layout, buffers)
    own_gradients = gradients.filled - gradients.resident
    shared = layout.element * tied_gradient_elements(run, units)
    norm_width = 8 if _offloads(run) else 0  # norm of each own gradient in fp64 (:1886)
    states = []
    for unit in units:
        largest_tensor = max(_largest(unit), _largest(units[-1]))
        live = (
            own_gradients
            + buffers.whole
            - buffers.resident
            + max(buffers.copy, layout.element * largest_tensor)
            + norm_width * largest_tensor
        )
        states.append(UnitState(gradient_live=live if layout.trainable else 0))
    if len(units) > 1:
        states[-1] = UnitState(gradient_live=max(layout.element * _largest(units[-1]), shared), gradient_kept=shared)
    return tuple(states)


class _Buffers:
    """Bytes of the reduction buckets (`whole`), and of the copy that the reduction of a full one makes (`copy`)."""

    def __init__(self, run: Run, layout: ZeroLayout) -> None:
        zero = run.parallelism.zero
        bucket = required_setting(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
        self.filled = layout.element * min(bucket, layout.trainable)
        # setup_buckets (:3256-3280): one buffer, two with overlap_comm, of the bucket's size whatever the model.
        self.whole = layout.element * bucket * (2 if zero.overlap_comm else 1) if zero.contiguous_gradients else 0
        # allreduce_bucket (:2367) flattens the slices of several ranks into one.
        self.copy = self.filled if layout.ranks > 1 and zero.reduce_scatter else 0
        # Stage 1 reduces, and so frees them, only at the end of an accumulation (engine.py:3084-3092).
        self.resident = self.whole if zero.stage == 1 and _accumulates(run) else 0


def _stage1_backward(run: Run, units: tuple[Unit, ...], layout: ZeroLayout, buffers: _Buffers) -> tuple[UnitState, ...]:
    """All gradients stay until the end of the backward. Then they go through the bucket, and the rank's own are copied
    out of it (`reduce_gradients`, :958)."""
    owned = layout.element * sum(_owned_elements(group, layout.ranks) for group in layout.groups)
    accumulates = _accumulates(run)
    kept = [0 if accumulates else layout.element * _trainable(unit) for unit in units]
    # Beside a unit's activations at their peak stands the gradient of one of its matrices; the others follow.
    whole = buffers.whole - buffers.resident
    states = []
    for size, unit in zip(kept, units, strict=True):
        matrix = layout.element * _largest(unit)
        states.append(UnitState(gradient_live=whole + matrix, gradient_kept=size, gradient_end=whole + size))
    states[-1] = states[-1]._replace(gradient_live=layout.element * _largest(units[-1]))
    first = layout.groups[0][0] if layout.groups else 0
    bucket = run.parallelism.zero.reduce_bucket_size
    moved = buffers.filled if isinstance(bucket, int) and first <= bucket else 0
    end = whole + max(buffers.copy, owned) - moved
    states[0] = states[0]._replace(gradient_end=kept[0] + max(whole, end))
    return tuple(states)


def _step_memory(layout: ZeroLayout, shares: list[int], owned: int, temporaries: list[int]) -> tuple[int, int]:
    """Bytes at the optimizer step: the rank's gradients in the master's dtype, and what is allocated beside them.

    That is the norm in fp64 (:2684), then for each group the flat copy and its conversion (:3112-3118), then the
    optimizer's own temporaries. The half-precision gradients of all groups are views of one buffer
    (`grads_in_partition`). It lives until the last group is flattened, so through the update of the first one.
    """
    share = max(shares, default=0)
    gradient = layout.master * share
    if layout.accumulation == 4:  # already flat and fp32, or (fp32 weights) flattened without conversion
        own = 4 * sum(shares) if layout.element == 2 else 4 * owned
        copies = 0 if layout.element == 2 else 4 * share
        return max(gradient, own), max(copies, 8 * layout.largest, max(temporaries, default=0))
    own = layout.element * owned
    converted = layout.element * share if layout.element != layout.master else 0
    updating = max(temporaries, default=0) + (own if len(shares) > 1 else 0)
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


def _owned_elements(group: tuple[int, ...], ranks: int, min_numel: int = 0) -> int:
    """Elements of all tensors (larger than `min_numel`) that overlap a rank's partition, for the rank with most. If a
    tensor crosses the border, both ranks keep its whole gradient (`grads_in_partition`, :2192)."""
    share = _partition_elements(group, ranks)
    ends = list(accumulate(group))
    counted = ends if not min_numel else list(accumulate(numel if numel > min_numel else 0 for numel in group))
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
