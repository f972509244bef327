"""One proposed change and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.run import Run

QUALITIES = ("none", "low", "medium", "high")


class ProposedChange(NamedTuple):
    """One proposed change. `speed` is the factor on the time of a step (1.3 = 30 % slower), `quality` the risk for the
    result, `safe` says that training computes the same thing (up to rounding)."""

    title: str
    changes: Mapping[str, Any]
    speed: float = 1.0
    quality: str = "none"
    safe: bool = True
    group: str = ""  # two steps of one group exclude each other
    note: str = ""


Move = Callable[[Run], Iterator[ProposedChange]]


def cost(step: ProposedChange) -> float:
    """What a change costs in one number: quality weighs more than any speed."""
    return (0.0, 0.3, 1.0, 3.0)[QUALITIES.index(step.quality)] + max(0.0, step.speed - 1) + 0.01


def haste(step: ProposedChange) -> float:
    """What a change costs who wants short steps above all."""
    return max(0.0, 10 * (step.speed - 1)) + 0.1 * QUALITIES.index(step.quality) + 0.01
