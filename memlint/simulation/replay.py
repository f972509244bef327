"""Evaluates a tracker's record of allocations: the peak of each phase, and the tensors alive at that moment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from memlint.simulation.result import Live, SimulatedStep
from memlint.simulation.tracker import Allocation, Tracker

LAYER = re.compile(r"\.\d+(?=\.|$)")


def phase_peaks(tracker: Tracker) -> dict[str, tuple[int, int]]:
    """The peak of each phase: (how many events came before it, live bytes)."""
    best: dict[str, tuple[int, int]] = {}
    marks = dict(tracker.marks)
    current, phase = 0, ""
    for position, event in enumerate(tracker.events):
        if position in marks:
            phase = marks[position]
            best[phase] = (position, current)
        current += tracker.allocations[event].bytes if event >= 0 else -tracker.allocations[~event].bytes
        if current > best[phase][1]:
            best[phase] = (position + 1, current)
    return best


def live_allocations(tracker: Tracker, position: int) -> list[Allocation]:
    """The storages alive after the first `position` events."""
    live: set[int] = set()
    for event in tracker.events[:position]:
        if event >= 0:
            live.add(event)
        else:
            live.discard(~event)
    return [tracker.allocations[index] for index in sorted(live)]


def name_logits(tracker: Tracker, vocabulary: int) -> None:
    """Marks the tensors that hold a value per token and entry of the vocabulary."""
    for allocation in tracker.allocations:
        if allocation.kind in ("", "activations") and len(allocation.shape) > 1 and allocation.shape[-1] == vocabulary:
            allocation.kind = "logits"


def grouped(allocations: Iterable[Allocation]) -> tuple[Live, ...]:
    """Allocations grouped by module (any layer), kind, shape, dtype and operator; largest first."""
    groups: dict[tuple[str, str, tuple[int, ...], str, str, str], list[int]] = {}
    for allocation in allocations:
        module = LAYER.sub(".*", allocation.module)
        key = (
            module,
            allocation.kind or _kind(allocation),
            allocation.shape,
            allocation.dtype,
            allocation.operator.removeprefix("aten::"),
            allocation.phase,
        )
        entry = groups.setdefault(key, [0, 0])
        entry[0] += 1
        entry[1] += allocation.bytes
    lines = [Live(*key, tensors=count, bytes=size) for key, (count, size) in groups.items()]
    return tuple(sorted(lines, key=lambda line: -line.bytes))


def _kind(allocation: Allocation) -> str:
    return "activations" if allocation.phase == "forward" else "temporaries"


def first_two_steps(step: SimulatedStep) -> tuple[list[int], tuple[int, ...]]:
    """(events, sizes) of a run's first two steps. The first makes the optimizer's states when it has its gradients and
    no longer its activations, so that states take pieces of the blocks which those left."""
    at, events = step.moments, step.events
    made, steady = events[at.states : at.step], events[at.step : at.end]
    freed = {~event for event in (*made, *steady) if event < 0}
    states = [event for event in made if event >= 0 and event not in freed]
    again = {event: len(step.sizes) + number for number, event in enumerate(one for one in steady if one >= 0)}
    first = [_renamed(event, again) for event in steady if event >= 0 or ~event not in made]
    turn = at.optimizer - at.step
    second = [event for event in steady if (event if event >= 0 else ~event) in again.keys() & freed]
    together = [*events[: at.states], *first[:turn], *states, *first[turn:], *second]
    return together, (*step.sizes, *(step.sizes[one] for one in again))


def _renamed(event: int, names: Mapping[int, int]) -> int:
    return names.get(event, event) if event >= 0 else ~names.get(~event, ~event)
