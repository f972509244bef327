"""What a step of full fine-tuning reserves, where its tensors take the blocks that the step before left cached.

When the optimizer has stepped, its temporaries and then the gradients are freed: one block for each parameter. The next
forward takes such a block for any tensor that is no larger, and splits it. So tensors of a short batch lie in the
blocks of matrices, logits in those of a large vocabulary's embedding, and only what is larger than all blocks that are
left needs memory of its own. The tensors of a step are replayed through a model of the allocator in the order in which
they come and go: the forward, then the backward of the head and of the last layers, after which gradients find the
blocks that they left. Equal layers in the middle only leave what they save.

Full steps on fake tensors, replayed in the same allocator, reserve as much within 3 % in 47 runs of Llama 3.2 1B,
Qwen2.5 0.5B and 1.5B, TinyLlama 1.1B, SmolLM2 1.7B and Gemma 2 2B where the optimizer's states are there before the
first step. In a run they are created at its end, in blocks that its activations left: then 11 such replays are 5 %
above to 21 % below this figure, the most with many more bytes of activations than of gradients (PowerLM-3B with
8 x 4,096 tokens: 48.6 GiB, where 61.8 are said here and 48.4 were measured). Where the states come to lie changes with
every size, so that the figure leaves them apart and the interval reaches lower (device.json, `slack`, `full`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from memlint._record import NamedTuple
from memlint.memory.autograd.tape import PeakCandidates, counters
from memlint.memory.autograd.walk import Segment, TensorBytes
from memlint.memory.card.allocator import Allocator
from memlint.memory.storage import BYTES, rounded
from memlint.memory.values import ModelState, Unit

Tensors = Mapping[int, int]  # how many tensors by size, bytes
_BACKWARD_SEGMENTS = 2  # the head and the layers before it


def beyond_step(segments: Sequence[Segment], units: tuple[Unit, ...], state: ModelState, inputs: int) -> int:
    """Bytes that a step reserves beyond the tensors that are alive when the optimizer steps. `inputs`: bytes of the
    batch and its masks."""
    gradients = tuple(_gradients(units))
    left = _left(gradients, not state.gradients_resident, state.step_temporaries)
    blocks = _Blocks(Allocator.with_cached(left.segments))
    cached = blocks.allocator.reserved
    blocks.change({}, {inputs: 1})
    _forward(blocks, segments)
    _backward(blocks, segments)
    alive = state.weights + state.optimizer_states + state.gradients_at_step + state.step_temporaries
    return blocks.allocator.peak_reserved - cached + left.rests * alive // max(1, sum(gradients))


class _Left(NamedTuple):
    """What the step before leaves cached: its `segments` in bytes, each free as a whole. `rests`: bytes left over in
    the segments of the gradients: segments are of 20 MiB for matrices of less than 10. Those of parameters and states
    have as many and as large tensors."""

    segments: tuple[int, ...]
    rests: int


@lru_cache(maxsize=64)  # a batch, a length and what is computed twice change nothing of it
def _left(gradients: tuple[int, ...], are_freed: bool, step_temporaries: int) -> _Left:
    """What the gradients (if `are_freed`) and the optimizer's temporaries leave."""
    allocator = Allocator()
    for key, size in enumerate(gradients):
        allocator.allocate(key, size)
    rests = allocator.reserved - allocator.allocated
    if not are_freed:
        allocator = Allocator()
    for key, size in enumerate(_temporaries(gradients, step_temporaries), len(gradients)):
        allocator.allocate(key, size)
    return _Left(tuple(allocator.segments), rests)


def _gradients(units: tuple[Unit, ...]) -> Iterator[int]:
    """Bytes of each gradient, in the order of the model."""
    for unit in units:
        trainable = [tensor for tensor in unit.tensors if tensor.trainable]
        sizes = [(rounded(tensor.numel * BYTES[tensor.dtype]), tensor.copies) for tensor in trainable]
        yield from [size for size, copies in sizes for _ in range(copies)] * unit.repeat


def _temporaries(gradients: Sequence[int], total: int) -> list[int]:
    """Bytes of each of the optimizer's temporaries: those of all tensors at once (foreach), or of the largest."""
    if not gradients or not total:
        return []
    together = sum(gradients)
    if total >= together:
        return list(gradients) * (total // together)
    largest = min(max(gradients), total)
    return [largest] * (total // largest)


def _forward(blocks: _Blocks, segments: Sequence[Segment]) -> None:
    """Each segment's forward, of equal ones the first and the last, and the end of autocast, which frees its copies."""
    first: dict[int, int] = {}
    last = {id(one.profile): index for index, one in enumerate(segments)}
    for index, one in enumerate(segments):
        kept = _alive(one.sizes, one.profile.live_in_forward)
        begins = first.setdefault(id(one.profile), index) == index
        ends = last[id(one.profile)] == index and (one.repeat > 1 or not begins)
        if begins:
            blocks.run(_moments(one.sizes, one.profile.forward), {}, kept)
        blocks.change({}, _times(kept, one.repeat - begins - ends))
        if ends:
            blocks.run(_moments(one.sizes, one.profile.forward), {}, kept)
    for one in segments:
        kept, saved = (_alive(one.sizes, at) for at in (one.profile.live_in_forward, one.profile.live_until_backward))
        blocks.change(_times(kept, one.repeat), _times(saved, one.repeat))


def _backward(blocks: _Blocks, segments: Sequence[Segment]) -> None:
    """The backward of the head, and of a layer."""
    for one in segments[: -_BACKWARD_SEGMENTS - 1 : -1]:
        saved = _alive(one.sizes, one.profile.live_until_backward)
        blocks.run(_moments(one.sizes, one.profile.backward), saved, _gradients_left(one))


def _gradients_left(segment: Segment) -> Tensors:
    """The parameters' gradients that a segment's backward leaves."""
    candidates = segment.profile.live_after_backward
    sizes = segment.sizes.by_size(candidates)
    found: Counter[int] = Counter()
    for index, number in enumerate(counters(candidates.packed[0])):
        if number and candidates.tensor_sizes[index].kept_gradient:
            found[sizes[index]] += number
    return found


def _moments(sizes: TensorBytes, candidates: PeakCandidates) -> Iterator[Tensors]:
    """The tensors of each live set, in the order of time."""
    each = sizes.by_size(candidates)
    for packed in candidates.packed:
        found: Counter[int] = Counter()
        for index, number in enumerate(counters(packed)):
            if number and each[index]:
                found[each[index]] += number
        yield found


def _alive(sizes: TensorBytes, candidates: PeakCandidates) -> Tensors:
    """The tensors of the only live set."""
    return next(_moments(sizes, candidates))


def _times(tensors: Tensors, number: int) -> Tensors:
    return {size: count * number for size, count in tensors.items()}


class _Blocks:
    """The allocator with the tensors that it holds, which are known by their size alone."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._held: dict[int, list[int]] = {}  # keys by size
        self._next = 0

    def run(self, moments: Iterable[Tensors], before: Tensors, after: Tensors) -> None:
        """Goes from moment to moment."""
        now = before
        for then in moments:
            self.change(now, then)
            now = then
        self.change(now, after)

    def change(self, now: Tensors, then: Tensors) -> None:
        """Frees what is gone, and then allocates what is new."""
        for size, number in now.items():
            gone = number - then.get(size, 0)
            if gone > 0:
                self._free(size, gone)
        for size, number in then.items():
            new = number - now.get(size, 0)
            if new > 0:
                self._allocate(size, new)

    def _free(self, size: int, number: int) -> None:
        for _ in range(number):
            self.allocator.free(self._held[size].pop())

    def _allocate(self, size: int, number: int) -> None:
        held = self._held.setdefault(size, [])
        for key in range(self._next, self._next + number):
            self.allocator.allocate(key, size)
            held.append(key)
        self._next += number
