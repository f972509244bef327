"""The tensors of a recorded step as allocations and frees, for a replay through the modelled allocator.

A recording has live sets, the candidates for a peak, in the order of time. Between two of them what is gone is freed,
and then what is new is allocated. Tensors are known by their size alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from memlint.memory.autograd.tape import PeakCandidates, counters
from memlint.memory.autograd.walk import Segment, TensorBytes
from memlint.memory.card.allocator import Allocator
from memlint.memory.storage import BYTES, rounded
from memlint.memory.values import Unit

Tensors = Mapping[int, int]  # how many tensors by size, bytes
Changes = Sequence[tuple[int, int]]  # size in bytes, and how many are allocated (below 0: freed), in the order of time


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
    return [largest] * (total // largest)


def gradients_left(segment: Segment) -> Tensors:
    """The parameters' gradients that a segment's backward leaves."""
    candidates = segment.profile.live_after_backward
    sizes = segment.sizes.by_size(candidates)
    found: Counter[int] = Counter()
    for index, number in enumerate(counters(candidates.packed[0])):
        if number and candidates.tensor_sizes[index].kept_gradient:
            found[sizes[index]] += number
    return found


def moments(sizes: TensorBytes, candidates: PeakCandidates) -> Iterator[Tensors]:
    """The tensors of each live set, in the order of time."""
    each = sizes.by_size(candidates)
    for packed in candidates.packed:
        found: Counter[int] = Counter()
        for index, number in enumerate(counters(packed)):
            if number and each[index]:
                found[each[index]] += number
        yield found


def alive(sizes: TensorBytes, candidates: PeakCandidates) -> Tensors:
    """The tensors of the only live set."""
    return next(moments(sizes, candidates))


def times(tensors: Tensors, number: int) -> Tensors:
    return {size: count * number for size, count in tensors.items()}


def changes(before: Tensors, between: Iterable[Tensors], after: Tensors) -> Changes:
    """From moment to moment."""
    found = []
    now = before
    for then in (*between, after):
        found += [(size, then.get(size, 0) - number) for size, number in now.items() if then.get(size, 0) < number]
        found += [(size, number - now.get(size, 0)) for size, number in then.items() if now.get(size, 0) < number]
        now = then
    return found


class Blocks:
    """The allocator with the tensors that it holds."""

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator
        self._held: dict[int, list[int]] = {}  # keys by size
        self._next = 0

    def apply(self, of_time: Changes) -> None:
        """Frees and allocates in this order. Of equal tensors, the youngest is freed first."""
        allocate, free, held = self.allocator.allocate, self.allocator.free, self._held
        for size, number in of_time:
            keys = held.setdefault(size, [])
            for _ in range(number, 0):
                free(keys.pop())
            for _ in range(number):
                allocate(self._next, size)
                keys.append(self._next)
                self._next += 1

    def change(self, now: Tensors, then: Tensors) -> None:
        """Frees what is gone, and then allocates what is new."""
        self.apply(changes(now, (), then))

    def each(self, sizes: Sequence[int]) -> None:
        """Allocates tensors of these sizes, one after the other."""
        self.apply([(size, 1) for size in sizes])

    def keep(self, sizes: Iterable[int]) -> None:
        """Allocates tensors that are never freed: none of them is taken for another tensor of its size."""
        for size in sizes:
            self.allocator.allocate(self._next, size)
            self._next += 1
