"""The tensors of a recorded step as allocations and frees, for a replay through the modelled allocator.

A recording has live sets, the candidates for a peak, in the order of time. Between two of them what is gone is freed,
and then what is new is allocated. Tensors are known by their size alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

from memlint.memory.autograd.profile import Profile
from memlint.memory.autograd.tape import PeakCandidates, counters
from memlint.memory.autograd.walk import TensorBytes
from memlint.memory.card.allocator import SMALL_SIZE, Allocator, Block
from memlint.memory.card.stretches import Stretch, in_order, stretches
from memlint.memory.state.storage import BYTES, rounded
from memlint.memory.values import Unit

Tensors = Mapping[int, int]  # how many tensors by size, bytes


def gradients(units: tuple[Unit, ...]) -> Iterator[int]:
    """Bytes of each gradient, in the order of the model."""
    for unit in units:
        trainable = [tensor for tensor in unit.tensors if tensor.trainable]
        sizes = [(rounded(tensor.numel * BYTES[tensor.dtype]), tensor.copies) for tensor in trainable]
        yield from [size for size, copies in sizes for _ in range(copies)] * unit.repeat


def temporaries(of_gradients: Sequence[int], total: int) -> list[int]:
    """Bytes of each of the optimizer's temporaries: those of all tensors at once (foreach), or of the largest."""
    if not of_gradients or not total:
        return []
    together = sum(of_gradients)
    if total >= together:
        return list(of_gradients) * (total // together)
    largest = min(max(of_gradients), total)
    return [rounded(largest)] * (total // largest)


def times(tensors: Tensors, number: int) -> Tensors:
    return {size: count * number for size, count in tensors.items()}


class SegmentEvents:
    """What a segment allocates and frees, in stretches. Compared by identity: `segment_events` gives the same object
    for the same segment.

    `kept` lives until autocast ends, and then what is `saved` until the backward, which leaves `gradients`.
    `end_of_forward` leads from the one to the other. `short_backward` is the backward without its temporaries.
    """

    __slots__ = ("backward", "end_of_forward", "forward", "gradients", "kept", "saved", "short_backward")

    def __init__(self, profile: Profile, sizes: TensorBytes, keeps_gradients: bool) -> None:
        """`keeps_gradients`: the backward leaves those that it makes."""
        kept, saved = _alive(sizes, profile.live_in_forward), _alive(sizes, profile.live_until_backward)
        left = _gradients_left(sizes, profile.live_after_backward) if keeps_gradients else {}
        self.kept: Tensors = kept
        self.saved: Tensors = saved
        self.gradients: Tensors = left
        self.forward = stretches(_events({}, _moments(sizes, profile.forward), kept))
        self.end_of_forward = stretches(_events(kept, (), saved))
        self.backward = stretches(_events(saved, _moments(sizes, profile.backward), left))
        self.short_backward = stretches(_events(saved, (), left))


# Estimates of one model have most segments in common. Recordings are known by their identity, and kept for that.
_KNOWN: WeakKeyDictionary[TensorBytes, dict[tuple[int, bool], tuple[Profile, SegmentEvents]]] = WeakKeyDictionary()


def segment_events(profile: Profile, sizes: TensorBytes, keeps_gradients: bool) -> SegmentEvents:
    """The events of a segment. `keeps_gradients`: its backward leaves those that it makes."""
    known = _KNOWN.setdefault(sizes, {})
    key = id(profile), keeps_gradients
    if key not in known:
        known[key] = profile, SegmentEvents(profile, sizes, keeps_gradients)
    return known[key][1]


def _gradients_left(sizes: TensorBytes, candidates: PeakCandidates) -> Tensors:
    """The gradients of parameters in the only live set, but for those that are added to others."""
    each = sizes.by_size(candidates)
    found: Counter[int] = Counter()
    for index, number in enumerate(counters(candidates.packed[0])):
        if number and each[index] and candidates.tensor_sizes[index].kept_gradient:
            found[each[index]] += number
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


def _events(before: Tensors, between: Iterable[Tensors], after: Tensors) -> list[int]:
    """From moment to moment."""
    found: list[int] = []
    now = before
    for then in (*between, after):
        for size, number in now.items():
            found += [-size] * (number - then.get(size, 0))
        for size, number in then.items():
            found += [size] * (number - now.get(size, 0))
        now = then
    return found


class Blocks:
    """The allocator with the tensors that it holds. Its settings are the default ones, so that what it reserves only
    grows, and its pools can be asked directly."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self._held: defaultdict[int, list[Block]] = defaultdict(list)  # by the size of their tensors

    def copy(self) -> Blocks:
        """The same blocks, for another continuation."""
        made = Blocks(self._allocator.copy())
        made._held.update((size, list(blocks)) for size, blocks in self._held.items())
        return made

    @property
    def reserved(self) -> int:
        return self._allocator.reserved

    def run(self, of_time: Iterable[Stretch]) -> None:
        """Frees and allocates in this order, but for what surely changes nothing. Of equal tensors, the youngest is
        freed first."""
        held = self._held
        for is_small, events, requests in of_time:
            pool = self._allocator.small if is_small else self._allocator.large
            if requests is not None and pool.surely_serves(requests):
                continue
            allocate, free = pool.allocate, pool.free
            for event in events:
                if event > 0:
                    held[event].append(allocate(event))
                else:
                    free(held[-event].pop())

    def change(self, now: Tensors, then: Tensors) -> None:
        """Frees what is gone, and then allocates what is new."""
        self.run(in_order(_events(now, (), then)))

    def keep(self, sizes: Iterable[int]) -> None:
        """Allocates tensors that are never freed: none of them is taken for another tensor of its size. Tensors without
        elements have no block."""
        small, large = self._allocator.small, self._allocator.large
        for size in map(rounded, filter(None, sizes)):
            (small if size <= SMALL_SIZE else large).allocate(size)
