"""What the first two steps of full fine-tuning reserve, where each batch is as long as the longest.

The optimizer creates its states in its first step, when the activations of that step are freed: parameter by parameter,
each in the smallest cached block that holds it. So states take pieces of the blocks of activations and logits, and the
second step needs memory of its own for what no longer fits. From then on every step finds what it needs.

The steps are replayed through a model of the allocator: weights, the forward and backward of each micro-batch, states,
the optimizer's temporaries, and all of it but the states again. Of the last backward, equal layers only leave their
gradients. Two steps on fake tensors, replayed in the same allocator, reserve as much within 2.2 % in 20 runs of Llama
3.2 1B, TinyLlama 1.1B and Qwen2.5 0.5B, where states that lie apart (cached_blocks.py) give up to 20 % more or 4 %
less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from memlint._record import NamedTuple
from memlint.memory.autograd.walk import Segment
from memlint.memory.card.allocator import Allocator
from memlint.memory.card.replayed_tensors import (
    Blocks,
    SegmentEvents,
    Tensors,
    gradients,
    segment_events,
    temporaries,
)
from memlint.memory.card.stretches import in_order
from memlint.memory.segments.of_model import segments
from memlint.memory.segments.step import TrainingStep
from memlint.memory.sharding.unsharded import gradient_bytes
from memlint.memory.state.optimizers import is_layerwise
from memlint.memory.state.storage import rounded
from memlint.memory.values import ModelState, Unit, UnitState

_LAYERS_OF_LAST_BACKWARD = 3  # the head and two layers; from then on gradients find the blocks that others left


class MicroBatches(NamedTuple):
    """The segments of the micro-batches of a step. `first` makes the gradients, `other` adds to them; it is empty where
    a step has one micro-batch. `keeps_gradients`: the first leaves them, as nothing uses them before the step."""

    first: Sequence[Segment]
    other: Sequence[Segment] = ()
    keeps_gradients: bool = True


def micro_batches(
    step: TrainingStep, found: Sequence[Segment], units: tuple[Unit, ...], state: ModelState
) -> MicroBatches:
    """The micro-batches of a run whose segments are `found`. Where gradients are there before the backward, or are used
    within it, those segments do not count what makes them."""
    layerwise = is_layerwise(step.run)
    if not (state.gradients_resident or layerwise):
        return MicroBatches(found)
    made = tuple(UnitState(gradient_kept=gradient_bytes(step.run, unit)) for unit in units)
    first = segments(step, units, state._replace(units=made))
    return MicroBatches(first, () if layerwise else found, not layerwise)


def reserved_by_first_steps(
    batches: MicroBatches, units: tuple[Unit, ...], state: ModelState, states: Sequence[int], inputs: int
) -> int:
    """Bytes that two steps reserve. `states`: bytes of each tensor that the optimizer creates in its first step.
    `inputs`: bytes of the batch and its masks."""
    of_gradients = tuple(gradients(units))
    kept = (*_weights(units, state.weights), *(of_gradients if state.communication else ()), inputs)
    replayed = _parts_of(batches.first, batches.keeps_gradients), _parts_of(batches.other, False)
    of_step = tuple(temporaries(of_gradients, state.step_temporaries))
    return _reserved(kept, replayed, tuple(states), of_step)


# The segments of a micro-batch, each with the number of equal ones in a row.
_Parts = tuple[tuple[SegmentEvents, int], ...]


def _parts_of(segments: Sequence[Segment], keeps_gradients: bool) -> _Parts:
    return tuple((segment_events(one.profile, one.sizes, keeps_gradients), one.repeat) for one in segments)


@lru_cache(maxsize=32)  # runs that differ in their evaluation or in what they save have the same steps
def _reserved(
    kept: tuple[int, ...], micro_batches: tuple[_Parts, ...], states: tuple[int, ...], of_step: tuple[int, ...]
) -> int:
    """Bytes that two steps reserve. `kept`: bytes of each tensor that is there all the time. `of_step`: of each of the
    optimizer's temporaries."""
    first = _first_passes(kept, micro_batches)
    blocks = first.blocks.copy()
    blocks.keep(states)
    blocks.run(in_order(of_step))
    blocks.run(in_order([-size for size in of_step]))
    blocks.change(first.left, {})
    _passes(blocks, micro_batches, short=True)
    blocks.run(in_order(of_step))
    return blocks.reserved


class _FirstPasses(NamedTuple):
    """The allocator after the micro-batches of the first step, and the gradients that they left."""

    blocks: Blocks
    left: Tensors


@lru_cache(maxsize=4)  # runs that differ in their optimizer share it
def _first_passes(kept: tuple[int, ...], micro_batches: tuple[_Parts, ...]) -> _FirstPasses:
    blocks = Blocks(Allocator())
    blocks.keep(kept)
    return _FirstPasses(blocks, _passes(blocks, micro_batches, short=False))


def _weights(units: tuple[Unit, ...], total: int) -> Iterator[int]:
    """Bytes of each parameter, and of what else is counted as weights."""
    known = 0
    for unit in units:
        sizes = [rounded(tensor.stored_bytes) for tensor in unit.tensors for _ in range(tensor.copies)] * unit.repeat
        known += sum(sizes)
        yield from sizes
    if total > known:
        yield total - known


def _passes(blocks: Blocks, micro_batches: Iterable[_Parts], short: bool) -> Tensors:
    """Forward and backward of each micro-batch; the gradients that they leave."""
    left: Counter[int] = Counter()
    for parts in micro_batches:
        _forward(blocks, parts)
        left += _backward(blocks, parts, short)
    return left


def _forward(blocks: Blocks, parts: _Parts) -> None:
    """Each segment's forward, and the end of autocast, which frees its copies."""
    for segment, repeat in parts:
        for _ in range(repeat):
            blocks.run(segment.forward)
    for segment, repeat in parts:
        for _ in range(repeat):
            blocks.run(segment.end_of_forward)


def _backward(blocks: Blocks, parts: _Parts, short: bool) -> Counter[int]:
    """Each segment's backward; the gradients that it leaves."""
    left: Counter[int] = Counter()
    passed = 0
    for segment, repeat in reversed(parts):
        for _ in range(repeat):
            in_short = short and passed >= _LAYERS_OF_LAST_BACKWARD
            blocks.run(segment.short_backward if in_short else segment.backward)
            passed += 1
        for size, number in segment.gradients.items():
            left[size] += number * repeat
    return left
