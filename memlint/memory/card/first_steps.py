"""What the first two steps of full fine-tuning reserve, where each batch is as long as the longest.

The optimizer creates its states in its first step, when the activations of that step are freed: parameter by parameter,
each in the smallest cached block that holds it. So states take pieces of the blocks of activations and logits, and the
second step needs memory of its own for what no longer fits. From then on every step finds what it needs.

The steps are replayed through a model of the allocator: weights, the forward and backward of each micro-batch, states,
the optimizer's temporaries, and all of it but the states again. Of the last backward, equal layers only leave their
gradients. Two steps on fake tensors, replayed in the same allocator, reserve as much within 2 % in 20 runs of Llama 3.2
1B, TinyLlama 1.1B and Qwen2.5 0.5B, where states that lie apart (cached_blocks.py) give up to 20 % more or 4 % less.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from memlint._record import NamedTuple
from memlint.memory.autograd.walk import Segment
from memlint.memory.card.allocator import Allocator
from memlint.memory.card.replayed_tensors import (
    Blocks,
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
    blocks = Blocks(Allocator())
    of_gradients = list(gradients(units))
    of_step = temporaries(of_gradients, state.step_temporaries)
    blocks.keep(_weights(units, state.weights))
    blocks.keep(of_gradients if state.communication else ())
    blocks.keep((inputs,))
    replayed = _Micro(blocks, batches.first, batches.keeps_gradients), _Micro(blocks, batches.other, False)
    left = _passes(replayed, short=False)
    blocks.keep(states)
    blocks.run(in_order(of_step))
    blocks.run(in_order([-size for size in of_step]))
    blocks.change(left, {})
    _passes(replayed, short=True)
    blocks.run(in_order(of_step))
    return blocks.reserved


def _weights(units: tuple[Unit, ...], total: int) -> Iterator[int]:
    """Bytes of each parameter, and of what else is counted as weights."""
    known = 0
    for unit in units:
        sizes = [rounded(tensor.stored_bytes) for tensor in unit.tensors for _ in range(tensor.copies)] * unit.repeat
        known += sum(sizes)
        yield from sizes
    if total > known:
        yield total - known


def _passes(micro_batches: Iterable[_Micro], short: bool) -> Tensors:
    """Forward and backward of each micro-batch; the gradients that they leave."""
    left: Counter[int] = Counter()
    for one in micro_batches:
        one.forward()
        left += one.backward(short)
    return left


class _Micro:
    """A micro-batch: its segments, whose forward and backward are replayed in `blocks`."""

    def __init__(self, blocks: Blocks, segments: Sequence[Segment], keeps_gradients: bool) -> None:
        self._blocks = blocks
        self._parts = [(segment_events(one.profile, one.sizes, keeps_gradients), one.repeat) for one in segments]

    def forward(self) -> None:
        """Each segment's forward, and the end of autocast, which frees its copies."""
        for segment, repeat in self._parts:
            for _ in range(repeat):
                self._blocks.run(segment.forward)
        for segment, repeat in self._parts:
            for _ in range(repeat):
                self._blocks.run(segment.end_of_forward)

    def backward(self, short: bool) -> Counter[int]:
        """Each segment's backward; the gradients that it leaves."""
        left: Counter[int] = Counter()
        passed = 0
        for segment, repeat in reversed(self._parts):
            for _ in range(repeat):
                in_short = short and passed >= _LAYERS_OF_LAST_BACKWARD
                self._blocks.run(segment.short_backward if in_short else segment.backward)
                passed += 1
            for size, number in segment.gradients.items():
                left[size] += number * repeat
        return left
