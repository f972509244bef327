"""One proposed change of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import exp, log
from typing import Any

from memlint._record import NamedTuple
from memlint.fixes.costs import QUALITIES, Cost
from memlint.run import Run

_WEIGHTS = (0.0, 0.3, 1.0, 3.0)  # of QUALITIES, beside a step that takes as much longer
_EACH = 0.01  # one change fewer, where all else is equal


class ProposedChange(NamedTuple):
    """One proposed change of a run, as dotted fields with new values.

    `group`: two changes of one group exclude each other; a move yields those of one group from the weakest to the
    strongest. `safe`: training computes the same, up to rounding. `price`: what it costs alone (fixes/costs.py).
    """

    title: str
    changes: Mapping[str, Any]
    group: str = ""
    safe: bool = True
    note: str = ""
    price: Cost = Cost()


Move = Callable[[Run], Iterator[ProposedChange]]


def weighed(price: Cost, changes: int = 1) -> float:
    """A price as one number where the training result matters most: risk weighs more than time."""
    return _WEIGHTS[QUALITIES.index(price.quality)] + max(0.0, price.speed - 1) + _EACH * changes


def risk_first(step: ProposedChange) -> tuple[int, float]:
    """Orders changes from the cheapest: by risk for the result, then by time."""
    return QUALITIES.index(step.price.quality), step.price.speed


def time_first(step: ProposedChange) -> tuple[float, int]:
    """Orders changes from the fastest: by time, then by risk for the result."""
    return step.price.speed, QUALITIES.index(step.price.quality)


_SAME_TIME = 0.02  # no price is nearer to the truth than that


def about(step: ProposedChange) -> ProposedChange:
    """The change with its time rounded, so that times which prices cannot tell apart are equal."""
    speed = exp(_SAME_TIME * round(log(step.price.speed) / _SAME_TIME))
    return step._replace(price=step.price._replace(speed=speed))
