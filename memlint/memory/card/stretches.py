"""Allocations and frees in the order of time, cut into stretches, some of which need no replay.

A stretch that frees all that it allocates leaves the free blocks as they were before it: what it split is merged again.
Something changes only where it finds no block for a tensor: then the allocator reserves a segment. So it is left out
where the free blocks surely serve all of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate

from memlint._record import NamedTuple
from memlint.memory.card.allocator import SMALL_SIZE, Requests

Events = Sequence[int]  # bytes of a tensor that is allocated; below 0, of one that is freed: the youngest of its size


class Stretch(NamedTuple):
    """Events in a row of one pool. `requests`: those that they make, if they free all that they allocate and nothing
    else."""

    is_small: bool
    events: Events
    requests: Requests | None = None


def in_order(events: Events) -> tuple[Stretch, Stretch]:
    """The events as they are. The pools of small and of large blocks have nothing to do with each other, so that those
    of one follow those of the other."""
    small = [event for event in events if abs(event) <= SMALL_SIZE]
    large = [event for event in events if abs(event) > SMALL_SIZE]
    return Stretch(True, small), Stretch(False, large)


def stretches(events: Events) -> tuple[Stretch, ...]:
    """The events, with as many as possible in stretches that free what they allocate."""
    return tuple(part for pool in in_order(events) for part in _parts(pool))


def _parts(whole: Stretch) -> Iterator[Stretch]:
    is_small, events, _ = whole
    other: list[int] = []
    closed: list[int] = []
    live = 0
    for event, is_alone in zip(events, _alone(events), strict=True):
        if is_alone:
            other.append(event)
            continue
        closed.append(event)
        live += 1 if event > 0 else -1
        if not live:
            if other:
                yield Stretch(is_small, other)
            sizes = [event for event in closed if event > 0]
            yield Stretch(is_small, closed, Requests(sum(sizes), max(sizes)))
            other, closed = [], []
    if other:
        yield Stretch(is_small, other)


def _alone(events: Events) -> list[bool]:
    """Which of the events lie in no such stretch: those of tensors that live before or after all events, and of those
    that live when such an event is."""
    partners = _partners(events)
    alone = [partner is None for partner in partners]
    while True:
        before = tuple(accumulate(alone, initial=0))  # how many there are before each event
        more = [
            index
            for index, partner in enumerate(partners)
            if partner is not None and not alone[index] and before[index] != before[partner]
        ]
        if not more:
            return alone
        for index in more:
            alone[index] = True


def _partners(events: Events) -> list[int | None]:
    """Of each event that allocates a tensor, the place of the one that frees it, and the other way round."""
    partners: list[int | None] = [None] * len(events)
    live: defaultdict[int, list[int]] = defaultdict(list)  # places by size
    for index, event in enumerate(events):
        if event > 0:
            live[event].append(index)
        elif live[-event]:
            partner = live[-event].pop()
            partners[index], partners[partner] = partner, index
    return partners
