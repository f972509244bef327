"""ZeRO stages 1 and 2: weights whole, optimizer states (and at the end of a backward, gradients) shared.

deepspeed 0.19.8 runtime/zero/stage_1_and_2.py unless said otherwise.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate

from memlint.memory import optimizers as optimizer
from memlint.memory.sharding.zero.host import partition_host_bytes
from memlint.memory.sharding.zero.layout import ZeroLayout, flat, is_quantized, known, ranks_per_node, tied_gradient
from memlint.memory.values import ModelState, Unit, UnitState
from memlint.run import Run

_RANKS_LOOKED_AT = 64  # beyond, partitions are smaller than the first tensors and look alike
_ALLREDUCE_BUCKET = 500_000_000  # elements; MEMORY_OPT_ALLREDUCE_SIZE, runtime/engine.py


def place(run: Run, units: tuple[Unit, ...], made: ZeroLayout) -> ModelState:
    """Sharded states; gradients pass through the reduction bucket into the rank's share."""
    if made.accumulation == 4 and made.element == 2 and run.parallelism.zero.stage == 1 and not _offloads(run):
        return _bf16_optimizer(run, units, made)
    return _partitioned(run, units, made)


def _partitioned(run: Run, units: tuple[Unit, ...], made: ZeroLayout) -> ModelState:
    shares = [_share(group, made.ranks) for group in made.groups]
    offloads = _offloads(run)
    weights = engine_weights(units, made.element)
    owned = sum(_owned(group, made.ranks) for group in made.groups)
    held = [optimizer.memory(run, flat(share)) for share in shares]
    master = made.master * sum(shares)
    gradients = _kept_gradients(run, made, owned, sum(shares))
    states = sum(h.states for h in held)
    scratch = made.element * made.largest if offloads else 0  # temp_grad_buffer_for_gpu_offload (:659)
    step, temporaries = (0, 0) if offloads else _step(made, shares, owned, [h.step_temporaries for h in held])
    return ModelState(
        weights=weights,
        optimizer_states=0 if offloads else master + states,
        gradients_resident=gradients.resident + _Buffers(run, made).resident,
        communication=scratch,
        units=_backward(run, units, made, gradients),
        gradients_at_step=step,
        step_temporaries=temporaries,
        communication_at_step=scratch,
        load_peak=weights,  # flattened in place: on the host when the card has no room for the copy (:453-462)
        host_bytes=partition_host_bytes(run, made, shares, states, owned) * ranks_per_node(run) if offloads else 0,
    )


class _Gradients:
    """Bytes: `resident` before a backward begins, `filled` while one runs, beside the buckets."""

    def __init__(self, resident: int, filled: int) -> None:
        self.resident = resident
        self.filled = filled


def _kept_gradients(run: Run, made: ZeroLayout, owned: int, shares: int) -> _Gradients:
    """What reduced gradients occupy. Stage 2 keeps the rank's own; an accumulation keeps them twice while a
    backward runs: `grads_in_partition` is made anew and added to the old ones (:1045). In the fp32 share the own
    gradients that were too large for the bucket stay beside it until the end (:2179-2182)."""
    accumulates = _accumulates(run)
    whole = made.element * made.trainable
    bucket = known(run.parallelism.zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    if run.parallelism.zero.stage == 1:
        return _stage1_gradients(run, made, owned, whole if accumulates else 0)
    if _offloads(run):
        return _Gradients(0, 0)
    if made.accumulation == 4 and made.element == 2:  # one fp32 share for all micro steps (:1259-1306)
        waits = made.element * sum(_owned(group, made.ranks, bucket) for group in made.groups)
        return _Gradients(4 * shares if accumulates else 0, 4 * shares + waits)
    own = made.element * owned
    return _Gradients(own if accumulates else 0, own * (2 if accumulates else 1))


def _stage1_gradients(run: Run, made: ZeroLayout, owned: int, resident: int) -> _Gradients:
    """All of them; with overlap they are moved into the bucket as they come, but for those larger than it."""
    if not run.parallelism.zero.overlap_comm:
        return _Gradients(resident, made.element * made.trainable)
    bucket = known(run.parallelism.zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    large = sum(numel for group in made.groups for numel in group if numel > bucket)
    others = large - large // made.ranks
    return _Gradients(resident, max(resident, made.element * (owned + others)))


def _backward(run: Run, units: tuple[Unit, ...], made: ZeroLayout, gradients: _Gradients) -> tuple[UnitState, ...]:
    """The buckets and the rank's own gradients appear when the first gradient is complete, which is the head's: beside
    the logits there is only that. A tensor larger than the bucket stays alone until it is reduced (:1445-1449)."""
    buffers = _Buffers(run, made)
    if run.parallelism.zero.stage == 1 and not run.parallelism.zero.overlap_comm:
        return _stage1_backward(run, units, made, buffers)
    own = gradients.filled - gradients.resident
    shared = made.element * tied_gradient(run, units)
    converts = 8 if _offloads(run) else 0  # norm of each own gradient in fp64 (:1886)
    states = []
    for unit in units:
        waiting = max(_largest(unit), _largest(units[-1]))
        live = own + buffers.whole - buffers.resident + max(buffers.copy, made.element * waiting) + converts * waiting
        states.append(UnitState(gradient_live=live if made.trainable else 0))
    if len(units) > 1:
        states[-1] = UnitState(gradient_live=max(made.element * _largest(units[-1]), shared), gradient_kept=shared)
    return tuple(states)


class _Buffers:
    """Bytes: `whole`, the reduction buckets; `copy`, what a reduction flattens of a full one."""

    def __init__(self, run: Run, made: ZeroLayout) -> None:
        zero = run.parallelism.zero
        bucket = known(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
        self.filled = made.element * min(bucket, made.trainable)
        # setup_buckets (:3256-3280): one buffer, two with overlap_comm, of the bucket's size whatever the model.
        self.whole = made.element * bucket * (2 if zero.overlap_comm else 1) if zero.contiguous_gradients else 0
        # allreduce_bucket (:2367) flattens the slices of several ranks into one.
        self.copy = self.filled if made.ranks > 1 and zero.reduce_scatter else 0
        # Stage 1 reduces, and so frees them, only at the end of an accumulation (engine.py:3084-3092).
        self.resident = self.whole if zero.stage == 1 and _accumulates(run) else 0


def _stage1_backward(run: Run, units: tuple[Unit, ...], made: ZeroLayout, buffers: _Buffers) -> tuple[UnitState, ...]:
    """Gradients pile up whole; after the last unit they go through the bucket, and the rank's own are copied out of it
    (`reduce_gradients`, :958)."""
    owned = made.element * sum(_owned(group, made.ranks) for group in made.groups)
    accumulates = _accumulates(run)
    kept = [0 if accumulates else made.element * _trainable(unit) for unit in units]
    # Beside a unit's activations at their peak stands the gradient of one of its matrices; the others follow.
    whole = buffers.whole - buffers.resident
    states = []
    for size, unit in zip(kept, units, strict=True):
        matrix = made.element * _largest(unit)
        states.append(UnitState(gradient_live=whole + matrix, gradient_kept=size, gradient_end=whole + size))
    states[-1] = states[-1]._replace(gradient_live=made.element * _largest(units[-1]))
    first = made.groups[0][0] if made.groups else 0
    bucket = run.parallelism.zero.reduce_bucket_size
    moved = buffers.filled if isinstance(bucket, int) and first <= bucket else 0
    end = whole + max(buffers.copy, owned) - moved
    states[0] = states[0]._replace(gradient_end=kept[0] + max(whole, end))
    return tuple(states)


def _step(made: ZeroLayout, shares: list[int], owned: int, temporaries: list[int]) -> tuple[int, int]:
    """(gradient share in the master's dtype, what comes on top): norms in fp64 (:2684), then per group the flat copy
    and its conversion (:3112-3118), then the optimizer's own temporaries. The half gradients of all groups are views
    of one buffer (`grads_in_partition`): it lives until the last group is flattened, so through the first one's
    update."""
    share = max(shares, default=0)
    gradient = made.master * share
    if made.accumulation == 4:  # already flat and fp32, or (fp32 weights) flattened without conversion
        own = 4 * sum(shares) if made.element == 2 else 4 * owned
        copies = 0 if made.element == 2 else 4 * share
        return max(gradient, own), max(copies, 8 * made.largest, max(temporaries, default=0))
    own = made.element * owned
    converted = made.element * share if made.element != made.master else 0
    updating = max(temporaries, default=0) + (own if len(shares) > 1 else 0)
    return gradient, max(own + converted, own + 8 * made.largest - gradient, updating)


def _bf16_optimizer(run: Run, units: tuple[Unit, ...], made: ZeroLayout) -> ModelState:
    """Stage 1 with bf16 weights and fp32 accumulation is another engine (engine.py:2305, bf16_optimizer.py): every
    gradient whole in fp32 from the start, the half ones beside them until the step (`immediate_grad_update` is off),
    then averaged through a flat fp32 copy cast to the communication dtype (engine.py:3073)."""
    shares = [_share(group, made.ranks) for group in made.groups]
    held = [optimizer.memory(run, flat(share)) for share in shares]
    weights = engine_weights(units, made.element)
    half = made.element * made.trainable
    averaging = (4 if made.trainable <= _ALLREDUCE_BUCKET else 0) * made.trainable + half if made.ranks > 1 else 0
    accumulates = _accumulates(run)
    states = [piling(unit, made.element, accumulates) for unit in units]
    states[0] = states[0]._replace(gradient_end=states[0].gradient_end + averaging)
    return ModelState(
        weights=weights,
        optimizer_states=4 * sum(shares) + sum(h.states for h in held),
        gradients_resident=4 * made.trainable + (half if accumulates else 0),
        communication=0,
        units=tuple(states),
        gradients_at_step=4 * made.trainable + half,
        step_temporaries=sum(h.step_temporaries for h in held),
        load_peak=weights + half,  # flattened beside the parameters (bf16_optimizer.py:167)
    )


def piling(unit: Unit, element: int, accumulates: bool) -> UnitState:
    """A unit whose gradients stay whole: one matrix's beside its activations at their peak, all at its end. In an
    accumulation they are resident already, but for the one being added."""
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


def _share(group: tuple[int, ...], ranks: int) -> int:
    """Elements of one rank's flat partition: padded to 4 bytes times the ranks (:441)."""
    alignment = 2 * ranks
    return -(-sum(group) // alignment) * 2


def _owned(group: tuple[int, ...], ranks: int, least: int = 0) -> int:
    """Elements of all tensors (larger than `least`) that overlap a rank's partition, for the rank with most: gradients
    are kept whole where a tensor crosses the border (`grads_in_partition`, :2192)."""
    share = _share(group, ranks)
    ends = list(accumulate(group))
    counted = ends if not least else list(accumulate(numel if numel > least else 0 for numel in group))
    most = 0
    for rank in range(min(ranks, _RANKS_LOOKED_AT)):
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
