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
    Changes,
    Tensors,
    alive,
    changes,
    gradients,
    gradients_left,
    moments,
    temporaries,
)
from memlint.memory.optimizers import is_layerwise
from memlint.memory.segments import segments
from memlint.memory.sharding.unsharded import gradient_bytes
from memlint.memory.step import TrainingStep
from memlint.memory.storage import rounded
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
    blocks.keep(_weights(units, state.weights))
    blocks.keep(of_gradients if state.communication else ())
    blocks.keep((inputs,))
    replayed = _Micro(blocks, batches.first, batches.keeps_gradients), _Micro(blocks, batches.other, False)
    left = _passes(replayed, short=False)
    blocks.keep(states)
    _step(blocks, temporaries(of_gradients, state.step_temporaries), left)
    left = _passes(replayed, short=True)
    _step(blocks, temporaries(of_gradients, state.step_temporaries), left)
    return blocks.allocator.peak_reserved


def _weights(units: tuple[Unit, ...], total: int) -> Iterator[int]:
    """Bytes of each parameter, and of what else is counted as weights."""
    known = 0
    for unit in units:
        sizes = [rounded(tensor.stored_bytes) for tensor in unit.tensors for _ in range(tensor.copies)] * unit.repeat
        known += sum(sizes)
        yield from sizes
    if total > known:
        yield total - known


def _step(blocks: Blocks, of_step: Sequence[int], left: Tensors) -> None:
    """The optimizer's temporaries come and go, and then the gradients go."""
    blocks.each(of_step)
    blocks.change(Counter(of_step), {})
    blocks.change(left, {})


def _passes(micro_batches: Iterable[_Micro], short: bool) -> Tensors:
    """Forward and backward of each micro-batch; the gradients that they leave."""
    left: Counter[int] = Counter()
    for one in micro_batches:
        one.forward()
        left += one.backward(short)
    return left


class _Layer(NamedTuple):
    """The changes of a segment: its forward, the end of autocast, its backward, and what that leaves without its
    temporaries."""

    forward: Changes
    end_of_forward: Changes
    backward: Changes
    backward_in_short: Changes
    gradients: Tensors


class _Micro:
    """A micro-batch: its segments, whose forward and backward are replayed in `blocks`."""

    def __init__(self, blocks: Blocks, segments: Sequence[Segment], keeps_gradients: bool) -> None:
        self._blocks, self._segments = blocks, segments
        known: dict[tuple[int, int], _Layer] = {}
        for one in segments:
            key = (id(one.profile), id(one.sizes))
            known[key] = known.get(key) or _layer(one, keeps_gradients)
        self._layers = [known[id(one.profile), id(one.sizes)] for one in segments]

    def forward(self) -> None:
        """Each segment's forward, and the end of autocast, which frees its copies."""
        for segment, layer in zip(self._segments, self._layers, strict=True):
            for _ in range(segment.repeat):
                self._blocks.apply(layer.forward)
        for segment, layer in zip(self._segments, self._layers, strict=True):
            for _ in range(segment.repeat):
                self._blocks.apply(layer.end_of_forward)

    def backward(self, short: bool) -> Counter[int]:
        """Each segment's backward; the gradients that it leaves."""
        left: Counter[int] = Counter()
        passed = 0
        for segment, layer in zip(reversed(self._segments), reversed(self._layers), strict=True):
            for _ in range(segment.repeat):
                in_short = short and passed >= _LAYERS_OF_LAST_BACKWARD
                self._blocks.apply(layer.backward_in_short if in_short else layer.backward)
                passed += 1
            for size, number in layer.gradients.items():
                left[size] += number * segment.repeat
        return left


def _layer(segment: Segment, keeps_gradients: bool) -> _Layer:
    sizes, profile = segment.sizes, segment.profile
    kept, saved = alive(sizes, profile.live_in_forward), alive(sizes, profile.live_until_backward)
    left = gradients_left(segment) if keeps_gradients else {}
    return _Layer(
        changes({}, moments(sizes, profile.forward), kept),
        changes(kept, (), saved),
        changes(saved, moments(sizes, profile.backward), left),
        changes(saved, (), left),
        left,
    )
