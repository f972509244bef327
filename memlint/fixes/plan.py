"""A plan: proposed changes together, the run that they make, its estimate and its price.

Here is what a plan is, in which order plans stand everywhere, which of two is the better one, and the fix that a plan
becomes. How plans are found: planner.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit, Fix
from memlint.fixes.costs import QUALITIES, Cost
from memlint.fixes.moves.catalog import CUT_ACCUMULATION, STRUCTURE, UPDATE_IN_BACKWARD
from memlint.fixes.proposed_change import ProposedChange, cuts_data, needs_host, rounded, weighed, with_effort
from memlint.memory.values import Estimate
from memlint.run import Run

Steps = tuple[ProposedChange, ...]

_HARDLY_FASTER = 0.95
_ABOUT_AS_FAST = 1.1
MUCH_SLOWER = 1.5  # nobody takes a plan for which a step takes as much longer as another plan's
FAR_SLOWER = 3.0  # a plan that takes as many times as long is no free one: a low risk is looked at first
NOISE = 0.005  # a smaller share of a figure is noise beside its interval
_BY_FAR = 0.05
UNBEARABLE = 8.0  # and as many times: a medium risk
_LOOKED_AT_FIRST = ((UNBEARABLE, QUALITIES.index("medium")), (FAR_SLOWER, QUALITIES.index("low")))
_HOST_BYTES_WORTH_A_NOTE = 8 << 30
_ACCUMULATION = "batch.gradient_accumulation_steps"


class Plan(NamedTuple):
    """Changes with which the run fits (or from `candidates`: needs less), with the changed run and its estimate."""

    steps: Steps
    run: Run
    estimate: Estimate
    price: Cost = Cost()

    @property
    def changes(self) -> dict[str, Any]:
        """All changes; the accumulation is that of the changed run, where several of them are about it."""
        found = {name: value for step in self.steps for name, value in step.changes.items()}
        if _ACCUMULATION in found:
            found[_ACCUMULATION] = self.run.batch.gradient_accumulation_steps
        return found

    @property
    def cost(self) -> float:
        return weighed(self.price, len(self.steps))

    @property
    def speed(self) -> float:
        """Factor on the time of a training step."""
        return self.price.speed

    @property
    def risk(self) -> int:
        """Index in QUALITIES of the risk for the result."""
        return QUALITIES.index(self.price.quality)


def peak(estimate: Estimate) -> int | None:
    """The bytes that the verdict compares with the card: the upper end of the device interval."""
    return estimate.device_high_bytes


def excess(estimate: Estimate) -> int:
    """Bytes over the budget; 0 where the run fits, or where nothing is known."""
    return max(0, (estimate.device_high_bytes or 0) - estimate.budget_bytes)


def saves(before: Estimate, after: Estimate) -> bool:
    """Whether a change lowers by more than noise what is shown: the figure and the upper end, which decides, or the
    upper end by far where the figure stays (as for fewer images of a run that is counted without any)."""
    (figure, end), (new_figure, new_end) = ((one.device_bytes, peak(one)) for one in (before, after))
    if figure is None or end is None or new_figure is None or new_end is None:
        return False
    share = 1 - new_end / max(1, end)
    return (share > NOISE and new_figure < (1 - NOISE) * figure) or (share > _BY_FAR and new_figure <= figure)


Kind = tuple[int, frozenset[str]]


def kind(plan: Plan) -> Kind:
    """What makes two plans variants of one: they change the same things, in another degree or another way (half the
    length or a quarter of it, one optimizer or another), and take about as long, in steps of 1.4 times."""
    return int(2 * log2(max(1.0, plan.speed))), frozenset(step.group for step in plan.steps)


def in_order(plan: Plan) -> tuple[Any, ...]:
    """The order of plans everywhere: by risk for the result, where it is high by how short sequences become, then by
    time as far as prices can tell, then those that the card does alone, then by the number of changes, then those that
    shard as before, then by the host memory that they need. A plan without a risk for which a step takes far
    longer stands behind those of a risk that are faster."""
    host, length = any(map(needs_host, plan.steps)), plan.run.sequence.length
    return (
        _behind(plan),
        plan.risk,
        -length if isinstance(length, int) and plan.risk == len(QUALITIES) - 1 else 0,
        rounded(with_effort(plan.speed, plan.steps)),
        host,
        len(plan.steps),
        any(step.group in STRUCTURE for step in plan.steps),
        plan.estimate.host_bytes or 0,
        tuple(step.title for step in plan.steps),
    )


def _behind(plan: Plan) -> float:
    """The risk that the plan stands behind: its own, or the one that is taken to be rid of so slow a step."""
    return max(plan.risk, accepted_risk(plan) + 0.5)


def accepted_risk(plan: Plan) -> int:
    """The highest risk, as an index in QUALITIES, that is taken to be rid of so slow a step; -1 where none is."""
    return next((risk for slower, risk in _LOOKED_AT_FIRST if plan.speed >= slower), -1)


def by_time(plan: Plan) -> tuple[Any, ...]:
    return rounded(with_effort(plan.speed, plan.steps)), *in_order(plan)


def beats(plan: Plan, other: Plan) -> bool:
    """Whether `plan` is no worse than `other` in risk, time and changes, and better in one."""
    mine, its = ((one.risk, one.speed, len(one.steps)) for one in (plan, other))
    return mine != its and all(own <= theirs for own, theirs in zip(mine, its))


def makes_pointless(plan: Plan, other: Plan) -> bool:
    """Whether nobody takes `other` who can have `plan`. A high risk is pointless beside any good plan, and a cut of the
    data beside one that cuts none, risks nothing that it does not, and takes about as long. Else `plan` must be better
    in all, and either much faster (far faster, where it alone asks for an engine or the host), or one that the card
    does alone where `other` does not, or where it risks what `plan` does not."""
    if other.risk == len(QUALITIES) - 1 and is_good(plan):
        return True
    if _cuts_data(other) and not _cuts_data(plan) and _risky(plan) <= _risky(other):
        return plan.speed <= _ABOUT_AS_FAST * other.speed
    risks = other.risk >= QUALITIES.index("medium") and (is_good(plan) or plan.risk < other.risk)
    mine, its = (any(map(asks_for_more, one.steps)) for one in (plan, other))
    asks_for_less = not mine and (its or risks)
    asks_for_as_much = risks and mine and its
    slower = FAR_SLOWER if mine and not its else MUCH_SLOWER
    return beats(plan, other) and (other.speed > slower * plan.speed or asks_for_less or asks_for_as_much)


def _cuts_data(plan: Plan) -> bool:
    return any(map(cuts_data, plan.steps))


def _risky(plan: Plan) -> frozenset[str]:
    """The changes of the plan that are a risk for the result."""
    return frozenset(step.title for step in plan.steps if step.price.quality != QUALITIES[0])


def is_good(plan: Plan) -> bool:
    """Whether nobody who has this plan risks the result for another one."""
    return plan.risk <= QUALITIES.index("low") and plan.speed <= MUCH_SLOWER


def asks_for_more(step: ProposedChange) -> bool:
    """Whether a change needs memory of the host, or another engine."""
    return needs_host(step) or "parallelism.engine" in step.changes


def adds_nothing(plan: Plan, other: Plan) -> bool:
    """Whether `plan` has all changes of `other` and further ones, without being less risky or noticeably faster."""
    more = {step.title for step in plan.steps} > {step.title for step in other.steps}
    return more and plan.risk >= other.risk and plan.speed >= _HARDLY_FASTER * other.speed


def _in_reading_order(steps: Steps) -> list[ProposedChange]:
    """The changes as a reader follows them: the cut of the accumulation starts from what a smaller micro batch left."""
    return sorted(steps, key=lambda step: step.group in (CUT_ACCUMULATION, UPDATE_IN_BACKWARD))


def as_fix(plan: Plan, before: Estimate, edits: tuple[Edit, ...] = ()) -> Fix:
    """The plan as a fix of a finding."""
    notes = (step.note for step in plan.steps)
    return Fix(
        title="; ".join(step.title for step in _in_reading_order(plan.steps)),
        edits=edits,
        changes=plan.changes,
        safe=all(step.safe for step in plan.steps),
        speed=plan.speed,
        quality=plan.price.quality,
        before=before.on_card,
        after=plan.estimate.on_card,
        verdict_after=plan.estimate.verdict if before.budget_bytes else "",
        note="; ".join(dict.fromkeys((*filter(None, notes), *host_note(plan.estimate, before)))),
    )


def host_note(after: Estimate, before: Estimate) -> Iterator[str]:
    """A note where much more host memory is needed than the run needed."""
    wanted, had = after.host_bytes or 0, before.host_bytes or 0
    if wanted > had + _HOST_BYTES_WORTH_A_NOTE:
        yield f"the host needs {wanted / 2**30:.1f} GiB of memory"
