"""How many gathered parameters ZeRO-3 holds at each point of a step: its fetch, prefetch and release rules, replayed.

DeepSpeed 0.19.8 runtime/zero/partitioned_param_coordinator.py. Three facts decide the peak:
- every module visit prefetches another `prefetch_bucket_size` elements, however much is in flight already,
  until `max_live_parameters` are available (:457-459); only prefetching obeys that limit;
- a parameter stays gathered after its use if it is used again within `max_reuse_distance` elements of
  module visits (:654-664) or if the prefetcher has passed its next use (:648-650);
- parameters gathered together share one flat buffer, which dies when the last of them was waited for, while
  each gets a copy out of it (partition_parameters.py:761-802); one gathered alone is used in place (:1373-1413).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Module(NamedTuple):
    """One module visit: the element counts of its own parameters that are gathered, and of those that persist.

    `tied`: the head of tied embeddings, which uses the first module's parameters again.
    """

    gathered: tuple[int, ...]
    persistent: int = 0
    tied: bool = False


class Knobs(NamedTuple):
    """Counts in elements; `ranks` share a parameter; `checkpointing`: layers run forward again in backward."""

    ranks: int
    prefetch_bucket_size: int
    max_live_parameters: int
    max_reuse_distance: int
    checkpointing: bool


class Gathered(NamedTuple):
    """Most elements held at once while a unit runs."""

    forward: int
    backward: int


class Replay(NamedTuple):
    """`at_loss`: elements still held when the last unit's forward has ended."""

    units: tuple[Gathered, ...]
    at_loss: int


class _Visit(NamedTuple):
    unit: int
    forward: bool
    parameters: tuple[int, ...]  # indexes of parameters
    numel: int  # persistent ones included: what counts for the reuse distance


@lru_cache(maxsize=512)
def replay(units: tuple[tuple[Module, ...], ...], checkpointed: tuple[bool, ...], knobs: Knobs) -> Replay:
    """Peak gathered elements per unit, in forward and in backward, in a step whose trace is known (the third on)."""
    sizes, visits = _visits(units, checkpointed, knobs)
    coordinator = _Coordinator(sizes, visits, knobs)
    forward = [0] * len(units)
    backward = [0] * len(units)
    turn = sum(len(modules) for modules in units)
    at_loss = 0
    for index, visit in enumerate(visits):
        peak = coordinator.visit(index)
        side = forward if index < turn else backward
        side[visit.unit] = max(side[visit.unit], peak)
        if index == turn - 1:
            at_loss = coordinator.held
    return Replay(tuple(Gathered(*pair) for pair in zip(forward, backward, strict=True)), at_loss)


def _visits(
    units: tuple[tuple[Module, ...], ...], checkpointed: tuple[bool, ...], knobs: Knobs
) -> tuple[list[int], list[_Visit]]:
    sizes: list[int] = []
    forward = [_forward_visits(unit, modules, sizes) for unit, modules in enumerate(units)]
    order = [visit for visits in forward for visit in visits]
    for unit in range(len(units) - 1, -1, -1):
        if knobs.checkpointing and checkpointed[unit]:
            order.extend(forward[unit])
        order.extend(visit._replace(forward=False) for visit in reversed(forward[unit]))
    return sizes, order


def _forward_visits(unit: int, modules: tuple[Module, ...], sizes: list[int]) -> list[_Visit]:
    visits = []
    for module in modules:
        first = len(sizes)
        sizes.extend(module.gathered)
        parameters = (0,) if module.tied else tuple(range(first, len(sizes)))
        visits.append(_Visit(unit, True, parameters, sum(sizes[p] for p in parameters) + module.persistent))
    return visits


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
        self.batch: list[int] = [-1] * len(sizes)  # the gather a parameter is in flight with
        self.available = [False] * len(sizes)
        self.buffers: list[tuple[int, list[int]]] = []  # elements, parameters
        self.waiting: list[int] = []
        self.arrived: list[bool] = []
        self.holds = [0] * len(sizes)  # elements of each parameter's own storage
        self.live = 0  # what the limit counts
        self.held = 0  # what memory holds
        self._reuse()

    def _reuse(self) -> None:
        """Whether each visit's parameters are used again within the reuse distance."""
        total = 0
        before = []
        for visit in self.visits:
            before.append(total)
            total += visit.numel
        before.append(total)
        upcoming: dict[tuple[int, ...], int] = {}
        self.kept = [False] * len(self.visits)
        for index in range(len(self.visits) - 1, -1, -1):
            parameters = self.visits[index].parameters
            following = upcoming.get(parameters)
            if following is not None:
                self.kept[index] = before[following] - before[index + 1] < self.knobs.max_reuse_distance
            upcoming[parameters] = index

    def visit(self, index: int) -> int:
        """Fetch, wait, prefetch, release; the most elements held meanwhile."""
        parameters = self.visits[index].parameters
        missing = [p for p in parameters if not self.available[p] and self.batch[p] < 0]
        self._gather(missing)
        peak = self.held
        for parameter in parameters:
            if self.batch[parameter] >= 0:
                peak = max(peak, self._wait(parameter))
        self._prefetch(index, parameters)
        peak = max(peak, self.held)
        self._release(index, parameters)
        return peak

    def _gather(self, parameters: list[int]) -> None:
        if not parameters:
            return
        number = len(self.buffers)
        self.buffers.append((sum(self.padded[p] for p in parameters), parameters))
        self.waiting.append(len(parameters))
        self.arrived.append(False)
        for parameter in parameters:
            self.batch[parameter] = number
            self.live += self.sizes[parameter]
        self.held += self.buffers[number][0]
        if len(parameters) == 1:
            self.holds[parameters[0]] = self.padded[parameters[0]]

    def _wait(self, parameter: int) -> int:
        number = self.batch[parameter]
        size, together = self.buffers[number]
        alone = len(together) == 1
        if not self.arrived[number]:
            self.arrived[number] = True
            for other in together:
                self.available[other] = True
                if not alone:
                    self.holds[other] = self.sizes[other]
                    self.held += self.sizes[other]
        peak = self.held
        self.batch[parameter] = -1
        self.waiting[number] -= 1
        if not self.waiting[number] and not alone:
            self.held -= size
        return peak

    def _prefetch(self, index: int, parameters: tuple[int, ...]) -> None:
        queue, fetched_for = self.queue, self.fetched_for
        for _ in [p for p in parameters if fetched_for[p] < index]:
            parameter, use = queue[self.next_in_queue]
            self.next_in_queue += 1
            fetched_for[parameter] = use
        room = min(self.knobs.max_live_parameters - self.live, self.knobs.prefetch_bucket_size)
        if self.knobs.prefetch_bucket_size <= 0:
            return
        wanted: list[int] = []
        count = 0
        end = len(queue)
        while self.next_in_queue < end and count < room:
            parameter, use = queue[self.next_in_queue]
            self.next_in_queue += 1
            if fetched_for[parameter] < use:
                fetched_for[parameter] = use
            if not self.available[parameter] and self.batch[parameter] < 0 and parameter not in wanted:
                wanted.append(parameter)
                count += self.sizes[parameter]
        self._gather(wanted)

    def _release(self, index: int, parameters: tuple[int, ...]) -> None:
        if self.kept[index]:
            return
        for parameter in parameters:
            if self.available[parameter] and self.fetched_for[parameter] <= index + 1:
                self.available[parameter] = False
                self.live -= self.sizes[parameter]
                self.held -= self.holds[parameter]
