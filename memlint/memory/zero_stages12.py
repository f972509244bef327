"""ZeRO stages 1 and 2: weights whole, optimizer states (and at the end of a backward, gradients) shared.

deepspeed 0.19.8 runtime/zero/stage_1_and_2.py unless said otherwise.
"""

from __future__ import annotations

from memlint.memory import optimizer
from memlint.memory.model import ModelState, Unit, UnitState
from memlint.memory.zero_host import partition_host_bytes
from memlint.memory.zero_layout import Layout, flat, is_quantized, known, ranks_per_node
from memlint.run import Run


def place(run: Run, units: tuple[Unit, ...], made: Layout) -> ModelState:
    """Sharded states; gradients pass through the reduction bucket into the rank's share."""
    if made.accumulation == 4 and made.element == 2 and run.parallelism.zero.stage == 1 and not _offloads(run):
        return _bf16_optimizer(run, units, made)
    return _partitioned(run, units, made)


def _partitioned(run: Run, units: tuple[Unit, ...], made: Layout) -> ModelState:
    shares = [_share(group, made.ranks) for group in made.groups]
    offloads = _offloads(run)
    weights = engine_weights(units, made.element)
    owned = sum(_owned(group, made.ranks) for group in made.groups)
    held = [optimizer.memory(run, flat(share)) for share in shares]
    master = 4 * sum(shares)
    gradients = _kept_gradients(run, made, owned, sum(shares))
    states = sum(h.states for h in held)
    scratch = made.element * made.largest if offloads else 0  # temp_grad_buffer_for_gpu_offload (:605)
    step, temporaries = (0, 0) if offloads else _step(made, shares, owned, [h.step_temporaries for h in held])
    return ModelState(
        weights=weights,
        optimizer_states=0 if offloads else master + states,
        gradients_resident=gradients.resident,
        communication=scratch,
        units=_backward(run, units, made, gradients),
        gradients_at_step=step,
        step_temporaries=temporaries,
        communication_at_step=scratch,
        load_peak=weights + made.element * made.trainable,  # flattened beside the parameters (:489)
        host_bytes=partition_host_bytes(run, made, sum(shares), states, owned) * ranks_per_node(run) if offloads else 0,
    )


class _Gradients:
    """Bytes: `resident` before a backward begins, `filled` while one runs, beside the buckets."""

    def __init__(self, resident: int, filled: int) -> None:
        self.resident = resident
        self.filled = filled


def _kept_gradients(run: Run, made: Layout, owned: int, shares: int) -> _Gradients:
    """What reduced gradients occupy. Stage 2 keeps the rank's own; an accumulation keeps them twice while a
    backward runs: `grads_in_partition` is made anew and added to the old ones (:884-891)."""
    accumulates = _accumulates(run)
    whole = made.element * made.trainable
    if run.parallelism.zero.stage == 1:
        return _Gradients(whole if accumulates else 0, whole)
    if _offloads(run):
        return _Gradients(0, 0)
    if made.accumulation == 4 and made.element == 2:  # one fp32 share for all micro steps (:1250-1283)
        return _Gradients(4 * shares if accumulates else 0, 4 * shares)
    own = made.element * owned
    return _Gradients(own if accumulates else 0, own * (2 if accumulates else 1))


def _backward(run: Run, units: tuple[Unit, ...], made: Layout, gradients: _Gradients) -> tuple[UnitState, ...]:
    zero = run.parallelism.zero
    bucket = known(zero.reduce_bucket_size, "parallelism.zero.reduce_bucket_size")
    filled = min(bucket, made.trainable)
    buffers = made.element * bucket * (2 if zero.overlap_comm else 1) if zero.contiguous_gradients else 0
    copy = made.element * filled if made.ranks > 1 else 0  # allreduce_bucket flattens slices of several ranks (:2367)
    if zero.stage == 1:
        return _stage1_backward(run, units, made, buffers, copy)
    states = []
    for unit in units:
        largest = max((t.numel for t in unit.tensors if t.trainable), default=0)
        live = gradients.filled - gradients.resident + buffers + max(copy, made.element * largest)
        states.append(UnitState(gradient_live=live if made.trainable else 0))
    return tuple(states)


def _stage1_backward(run: Run, units: tuple[Unit, ...], made: Layout, buffers: int, copy: int) -> tuple[UnitState, ...]:
    """Gradients pile up whole; after the last unit they are reduced through the bucket into the rank's own (:885)."""
    owned = sum(_owned(group, made.ranks) for group in made.groups)
    kept = [made.element * _trainable(unit) for unit in units]
    if _accumulates(run):
        kept = [0 for _ in units]
    overlapped = bool(run.parallelism.zero.overlap_comm)
    extra = buffers + (copy if overlapped else 0)
    states = [UnitState(gradient_kept=size, gradient_live=extra) for size in kept]
    end = max(copy, made.element * owned) + buffers - (min(buffers, copy) if not overlapped else 0)
    states[0] = states[0]._replace(gradient_live=max(extra, end))
    return tuple(states)


def _step(made: Layout, shares: list[int], owned: int, temporaries: list[int]) -> tuple[int, int]:
    """(fp32 gradient share, what comes on top): norms in fp64 (:2681), then per group the flat copy and its fp32
    conversion beside the gradients (:3119-3124), then the optimizer's own temporaries."""
    share = max(shares, default=0)
    gradient = 4 * share
    own = made.element * owned
    if made.accumulation == 4:
        own = 4 * sum(shares)
        converting = own - gradient
    else:
        converting = own + made.element * share
    norms = own + 8 * made.largest - gradient
    return gradient, max(converting, norms, max(temporaries, default=0))


def _bf16_optimizer(run: Run, units: tuple[Unit, ...], made: Layout) -> ModelState:
    """Stage 1 with bf16 weights and fp32 accumulation: another engine (engine.py:2305, bf16_optimizer.py) that
    keeps every gradient whole in fp32 from the start, and the half ones too (`immediate_grad_update` is off)."""
    shares = [_share(group, made.ranks) for group in made.groups]
    held = [optimizer.memory(run, flat(share)) for share in shares]
    weights = engine_weights(units, made.element)
    half = made.element * made.trainable
    return ModelState(
        weights=weights,
        optimizer_states=4 * sum(shares) + sum(h.states for h in held),
        gradients_resident=4 * made.trainable + half,
        communication=0,
        units=tuple(UnitState(gradient_live=made.element * _largest(unit)) for unit in units),
        gradients_at_step=4 * made.trainable + half,
        step_temporaries=max(sum(h.step_temporaries for h in held), 8 * made.largest),
        load_peak=weights + half,
    )


def engine_weights(units: tuple[Unit, ...], element: int) -> int:
    """Bytes of all weights as the engine casts them; quantised ones as stored."""
    return sum(
        (t.stored_bytes if is_quantized(t) else element * t.numel) * t.copies * unit.repeat
        for unit in units
        for t in unit.tensors
    )


def _share(group: tuple[int, ...], ranks: int) -> int:
    """Elements of one rank's flat partition: padded to 4 bytes times the ranks (:447)."""
    alignment = 2 * ranks
    return -(-sum(group) // alignment) * 2


def _owned(group: tuple[int, ...], ranks: int) -> int:
    """Elements of all tensors that overlap one rank's partition, for the rank with most: gradients are kept
    whole where a tensor crosses the border (`grads_in_partition`, :2178)."""
    share = _share(group, ranks)
    position = 0
    totals = [0] * ranks
    for numel in group:
        first = position // share
        last = min((position + numel - 1) // share, ranks - 1)
        for rank in range(first, last + 1):
            totals[rank] += numel
        position += numel
    return max(totals)


def _trainable(unit: Unit) -> int:
    return sum(t.numel * t.copies for t in unit.tensors if t.trainable)


def _largest(unit: Unit) -> int:
    return max((t.numel for t in unit.tensors if t.trainable), default=0)


def _offloads(run: Run) -> bool:
    return run.offload.optimizer != "none"


def _accumulates(run: Run) -> bool:
    steps = run.batch.gradient_accumulation_steps
    return isinstance(steps, int) and steps > 1
