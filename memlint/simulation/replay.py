"""Evaluates a tracker's record of allocations: the peak of each phase, and the tensors alive at that moment."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memlint.simulation.result import Live
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
