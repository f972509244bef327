"""One proposed change of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from math import exp, log
from typing import Any

from memlint._record import NamedTuple
from memlint.fixes.costs import QUALITIES, Cost
from memlint.run import Run

WEIGHTS = (0.0, 0.3, 1.0, 3.0)  # of QUALITIES, beside a step that takes as much longer
EACH_CHANGE = 0.01  # one change fewer, where all else is equal


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
    return WEIGHTS[QUALITIES.index(price.quality)] + max(0.0, price.speed - 1) + EACH_CHANGE * changes


def risk_first(step: ProposedChange) -> tuple[int, float, bool]:
    """Orders changes from the cheapest: by risk for the result, then by time, then those that the card does alone."""
    return QUALITIES.index(step.price.quality), step.price.speed, needs_host(step)


def time_first(step: ProposedChange) -> tuple[bool, float, int, bool]:
    """Orders changes from the fastest: by time, then by risk for the result, then those that the card does alone. What
    cuts the data comes last: nobody trains on half of each sample to spare the 2 % of smaller micro batches."""
    return cuts_data(step), step.price.speed, QUALITIES.index(step.price.quality), needs_host(step)


_CUTS_OF_DATA = frozenset(("sequence", "completion", "images"))


def cuts_data(step: ProposedChange) -> bool:
    """Whether the run sees less of each sample with the change."""
    return step.group in _CUTS_OF_DATA


def needs_host(step: ProposedChange) -> bool:
    """Whether the change moves tensors to host memory, which a machine must have free."""
    return any(
        (value is True and name in _TO_THE_HOST) or (value == "cpu" and name.startswith("offload."))
        for name, value in step.changes.items()
    )


_TO_THE_HOST = frozenset(
    (
        *("parallelism.fsdp.cpu_offload", "rollout.offloads_reference"),
        *(
            f"{model}.offloads_{part}"
            for model in ("rollout", "method.value_model")
            for part in ("weights", "optimizer")
        ),
    )
)
SAME_TIME = 0.02  # no price is nearer to the truth than that


def about(step: ProposedChange) -> ProposedChange:
    """The change with its time rounded, so that times which prices cannot tell apart are equal, and with the effort
    that it takes."""
    return step._replace(price=Cost(rounded(with_effort(step.price.speed, (step,))), step.price.quality))


OF_ANOTHER_ENGINE = 1.1


def with_effort(speed: float, steps: Iterable[ProposedChange]) -> float:
    """The factor on a step's time, with what changes are worth avoiding beside it. Another engine is another package,
    another launch and other checkpoints: nobody moves to ZeRO for the 6 % that half a micro batch costs, nor for what
    other changes of the plan gain, which smaller micro batches have as well."""
    another = any("parallelism.engine" in step.changes for step in steps)
    return max(1.0, speed) * OF_ANOTHER_ENGINE if another else speed


@lru_cache(maxsize=1024)
def rounded(speed: float) -> float:
    """The factor on a step's time, as exactly as prices are known."""
    return exp(SAME_TIME * round(log(speed) / SAME_TIME))
