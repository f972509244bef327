"""How many gathered parameters ZeRO-3 holds at each point of a step: its fetch, prefetch and release rules, replayed.

DeepSpeed 0.19.8 runtime/zero/partitioned_param_coordinator.py. Three facts decide the peak:
- every module visit prefetches another `prefetch_bucket_size` elements, however much is in flight already,
  until `max_live_parameters` are available (:453-454); only prefetching obeys that limit;
- a parameter stays gathered after its use if it is used again within `max_reuse_distance` elements of
  module visits (:654-664) or if the prefetcher has passed its next use (:648-650);
- parameters gathered together share one flat buffer, which dies when the last of them was waited for, while
  each gets a copy out of it (partition_parameters.py:761-802); one gathered alone is used in place (:1373-1413).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate

from memlint._record import NamedTuple


class ModuleCall(NamedTuple):
    """One module visit: the element counts of its own parameters that are gathered, and of those that persist.

    `tied`: the head of tied embeddings, which uses the first module's parameters again.
    """

    gathered: tuple[int, ...]
    persistent: int = 0
    tied: bool = False


class Knobs(NamedTuple):
    """Counts in elements; `ranks` share a parameter."""

    ranks: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int


class Gathered(NamedTuple):
    """Most elements held at once while a unit runs."""

    forward: int
    backward: int


class Replay(NamedTuple):
    """`at_loss`: elements still held when the last unit's forward has ended."""

    units: tuple[Gathered, ...]
    at_loss: int


class RepeatedUnit(NamedTuple):
    """`repeat` equal units one after the other; `checkpointed`: each runs forward again in the backward."""

    modules: tuple[ModuleCall, ...]
    repeat: int = 1
    checkpointed: bool = False


class _Visit(NamedTuple):
    segment: int
    parameters: tuple[int, ...]  # indexes of parameters
    numel: int  # persistent ones included: what counts for the reuse distance


def replay(segments: tuple[RepeatedUnit, ...], knobs: Knobs) -> Replay:
    """Peak gathered elements per segment, in forward and in backward, in a step whose trace is known (the third on).

    Ranks matter by what they add to a parameter that does not divide among them.
    """
    sizes = {size for segment in segments for module in segment.modules for size in module.gathered}
    even = not any(size % knobs.ranks for size in sizes)
    return _replay(segments, knobs._replace(ranks=1) if even else knobs)


@lru_cache(maxsize=512)
def _replay(segments: tuple[RepeatedUnit, ...], knobs: Knobs) -> Replay:
    sizes: list[int] = []
    forward = [visits for i, segment in enumerate(segments) for visits in _forward(i, segment, sizes, knobs)]
    order = [visit for visits in forward for visit in visits]
    turn = len(order)
    for visits in reversed(forward):
        if segments[visits[0].segment].checkpointed:
            order.extend(visits)
        order.extend(reversed(visits))
    coordinator = _Coordinator(sizes, order, knobs)
    before = _peaks(coordinator, range(turn), len(segments))
    at_loss = coordinator.held
    after = _peaks(coordinator, range(turn, len(order)), len(segments))
    return Replay(tuple(Gathered(*pair) for pair in zip(before, after, strict=True)), at_loss)


def _peaks(coordinator: _Coordinator, visits: range, segments: int) -> list[int]:
    peaks = [0] * segments
    for index in visits:
        held = coordinator.visit(index)
        segment = coordinator.visits[index].segment
        if held > peaks[segment]:
            peaks[segment] = held
    return peaks


def _forward(number: int, segment: RepeatedUnit, sizes: list[int], knobs: Knobs) -> list[list[_Visit]]:
    """The visits of each unit of a segment, which is cut to the length beyond which nothing changes."""
    return [
        [_visit(number, module, sizes) for module in segment.modules]
        for _ in range(min(segment.repeat, _length(segment, knobs)))
    ]


def _visit(number: int, module: ModuleCall, sizes: list[int]) -> _Visit:
    first = len(sizes)
    sizes.extend(module.gathered)
    parameters = (0,) if module.tied else tuple(range(first, len(sizes)))
    return _Visit(number, parameters, sum(sizes[p] for p in parameters) + module.persistent)


def _length(segment: RepeatedUnit, knobs: Knobs) -> int:
    """Units that the prefetcher and the reuse distance can span on both sides of the turn, and some."""
    size = sum(sum(module.gathered) for module in segment.modules)
    if not size:
        return 3
    ahead = knobs.max_live_parameters if knobs.prefetch_bucket_size else 0
    return 8 + 3 * (ahead // size + 1) + knobs.max_reuse_distance // size


class _Coordinator:
    """The state of one step. Elements, not bytes."""

    def __init__(self, sizes: list[int], visits: list[_Visit], knobs: Knobs) -> None:
        self.sizes = sizes
        self.padded = [-(-size // knobs.ranks) * knobs.ranks for size in sizes]
        self.visits = visits
        self.knobs = knobs
        self.queue = [(parameter, index) for index, visit in enumerate(visits) for parameter in visit.parameters]
        self.next_in_queue = 0
        self.fetched_for = [-1] * len(sizes)
        self.batch = [-1] * len(sizes)  # the gather a parameter is in flight with
        self.available = [False] * len(sizes)
        self.gathers: list[_Gather] = []
        self.holds = [0] * len(sizes)  # elements of each parameter's own storage
        self.live = 0  # what the limit counts
        self.held = 0  # what memory holds
        self.kept = self._reused()

    def _reused(self) -> list[bool]:
        """Whether each visit's parameters are used again within the reuse distance."""
        before = [0, *accumulate(visit.numel for visit in self.visits)]
        upcoming: dict[tuple[int, ...], int] = {}
        kept = [False] * len(self.visits)
        for index in range(len(self.visits) - 1, -1, -1):
            parameters = self.visits[index].parameters
            following = upcoming.get(parameters)
            if following is not None:
                kept[index] = before[following] - before[index + 1] < self.knobs.max_reuse_distance
            upcoming[parameters] = index
        return kept

    def visit(self, index: int) -> int:
        """Fetch, wait, prefetch, release; the most elements held meanwhile."""
        parameters = self.visits[index].parameters
        peak = 0
        if parameters:
            self._gather([p for p in parameters if not self.available[p] and self.batch[p] < 0])
            for parameter in parameters:
                if self.batch[parameter] >= 0:
                    peak = max(peak, self._wait(parameter))
            self._pass(index, parameters)
        self._prefetch()
        peak = max(peak, self.held)
        if not self.kept[index]:
            self._release(index, parameters)
        return peak

    def _gather(self, parameters: list[int]) -> None:
        if not parameters:
            return
        size = sum(self.padded[p] for p in parameters)
        for parameter in parameters:
            self.batch[parameter] = len(self.gathers)
            self.live += self.sizes[parameter]
        self.gathers.append(_Gather(size, parameters))
        self.held += size
        if len(parameters) == 1:
            self.holds[parameters[0]] = size

    def _wait(self, parameter: int) -> int:
        """The first wait copies every parameter out of the flat buffer; the last one frees it."""
        gather = self.gathers[self.batch[parameter]]
        together = gather.parameters
        if not gather.arrived:
            gather.arrived = True
            for other in together:
                self.available[other] = True
                if len(together) > 1:
                    self.holds[other] = self.sizes[other]
                    self.held += self.sizes[other]
        peak = self.held
        self.batch[parameter] = -1
        gather.waiting -= 1
        if not gather.waiting and len(together) > 1:
            self.held -= gather.size
        return peak

    def _pass(self, index: int, parameters: tuple[int, ...]) -> None:
        """What is used now leaves the queue, unless a prefetch took it already."""
        fetched_for = self.fetched_for
        for _ in [p for p in parameters if fetched_for[p] < index]:
            parameter, use = self.queue[self.next_in_queue]
            self.next_in_queue += 1
            fetched_for[parameter] = use

    def _prefetch(self) -> None:
        room = min(self.knobs.max_live_parameters - self.live, self.knobs.prefetch_bucket_size)
        queue, fetched_for = self.queue, self.fetched_for
        wanted: dict[int, None] = {}
        count = 0
        while count < room and self.next_in_queue < len(queue):
            parameter, use = queue[self.next_in_queue]
            self.next_in_queue += 1
            if fetched_for[parameter] < use:
                fetched_for[parameter] = use
            if not self.available[parameter] and self.batch[parameter] < 0 and parameter not in wanted:
                wanted[parameter] = None
                count += self.sizes[parameter]
        self._gather(list(wanted))

    def _release(self, index: int, parameters: tuple[int, ...]) -> None:
        for parameter in parameters:
            if self.available[parameter] and self.fetched_for[parameter] <= index + 1:
                self.available[parameter] = False
                self.live -= self.sizes[parameter]
                self.held -= self.holds[parameter]


class _Gather:
    """One all-gather: its flat buffer's elements and the parameters in it."""

    __slots__ = ("arrived", "parameters", "size", "waiting")

    def __init__(self, size: int, parameters: list[int]) -> None:
        self.size = size
        self.parameters = parameters
        self.waiting = len(parameters)
        self.arrived = False
