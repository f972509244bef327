"""One proposed change and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.run import Run

QUALITIES = ("none", "low", "medium", "high")


class ProposedChange(NamedTuple):
    """One proposed change of a run, as dotted fields with new values.

    `speed`: factor on the time of a training step (1.3 = 30 % slower). `quality`: risk for the result, one of
    QUALITIES. `safe`: training computes the same, up to rounding."""

    title: str
    changes: Mapping[str, Any]
    speed: float = 1.0
    quality: str = "none"
    safe: bool = True
    group: str = ""  # two changes of one group exclude each other
    note: str = ""


Move = Callable[[Run], Iterator[ProposedChange]]


def cost(step: ProposedChange) -> float:
    """The price of a change where the training result matters most: quality weighs more than speed."""
    return (0.0, 0.3, 1.0, 3.0)[QUALITIES.index(step.quality)] + max(0.0, step.speed - 1) + 0.01


def time_cost(step: ProposedChange) -> float:
    """The price of a change where short training steps matter most."""
    return max(0.0, 10 * (step.speed - 1)) + 0.1 * QUALITIES.index(step.quality) + 0.01
