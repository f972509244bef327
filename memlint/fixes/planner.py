"""What makes a run fit: the cheapest combinations of moves, every one estimated anew in full.

For each tier of quality risk (none, low, medium, high) the search adds the step that takes off most of
the excess per unit of cost until the run fits, then drops every step that turned out to be unneeded and
weakens those that can be weaker. Excess is summed over the phases, so that a run whose backward and
optimizer step are both too large makes progress with either. About a hundred estimates a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit, Fix
from memlint.fixes.moves import QUALITIES, Step, cost, steps
from memlint.memory import estimate as closed_form
from memlint.memory.model import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
Accept = Callable[[Run], bool]

# A change that takes off less is noise beside the interval of the device figure.
WORTHWHILE = 0.005
MAX_STEPS = 6
ENOUGH = 3


class Plan(NamedTuple):
    """Steps that together make the run fit (or help, from `candidates`), with the run and estimate they lead to."""

    steps: tuple[Step, ...]
    run: Run
    estimate: Estimate

    @property
    def changes(self) -> dict[str, Any]:
        return {name: value for step in self.steps for name, value in step.changes.items()}

    @property
    def cost(self) -> float:
        return sum(map(cost, self.steps))


class Search(NamedTuple):
    """What a search is given. `express` says whether the format can write a change, `accept` whether rules object."""

    estimate: Estimator = closed_form
    express: Express | None = None
    accept: Accept | None = None


def peak(estimate: Estimate) -> int | None:
    """The bytes that the verdict compares with the card: the upper end of the device interval."""
    return estimate.device_high_bytes


def excess(estimate: Estimate) -> int:
    """Bytes over the budget, summed over the phases; 0 when every phase fits."""
    high, allocated = estimate.device_high_bytes, estimate.allocated_bytes
    if high is None or allocated is None:
        return 0
    around = high - allocated
    over = sum(max(0, phase.allocated_bytes + around - estimate.budget_bytes) for phase in estimate.phases)
    return over or max(0, high - estimate.budget_bytes)


def plans(run: Run, before: Estimate, search: Search = Search(), limit: int = ENOUGH) -> tuple[Plan, ...]:  # noqa: B008
    """At most `limit` plans whose estimate fits the card, cheapest first; empty where none does or no card is known."""
    if not before.budget_bytes or before.allocated_bytes is None or before.verdict == "fits":
        return ()
    found: dict[frozenset[str], Plan] = {}
    for quality in QUALITIES:
        plan = _search(run, before, search, quality)
        if plan is not None:
            found.setdefault(frozenset(step.title for step in plan.steps), plan)
            for rival in _single_step_rivals(run, before, search, quality, plan):
                found.setdefault(frozenset(step.title for step in rival.steps), rival)
        if len(found) >= limit:
            break
    return tuple(sorted(found.values(), key=lambda item: item.cost)[:limit])


def candidates(run: Run, before: Estimate, search: Search = Search(), limit: int = ENOUGH) -> tuple[Plan, ...]:  # noqa: B008
    """Single steps that lower the peak, cheapest first: what to offer where no card is known or nothing fits."""
    high = peak(before)
    if high is None:
        return ()
    helpful: dict[str, Plan] = {}
    for step in _expressible(run, search):
        plan = _plan(run, (step,), search)
        after = peak(plan.estimate)
        if after is not None and high - after > WORTHWHILE * high and _accepted(plan, search):
            best = helpful.get(step.group)
            if best is None or (plan.cost, -(high - after)) < (best.cost, 0):
                helpful[step.group] = plan
    return tuple(sorted(helpful.values(), key=lambda item: item.cost)[:limit])


def _search(run: Run, before: Estimate, search: Search, quality: str) -> Plan | None:
    """The plan of one tier: greedy by excess taken off per cost, then pruned and weakened."""
    chosen: tuple[Step, ...] = ()
    current = Plan((), run, before)
    while excess(current.estimate) and len(chosen) < MAX_STEPS:
        best = _best_next(run, current, search, quality)
        if best is None:
            return None
        current, chosen = best, best.steps
    if excess(current.estimate):
        return None
    return _weakened(run, _pruned(run, current, search), search, quality)


def _best_next(run: Run, current: Plan, search: Search, quality: str) -> Plan | None:
    over = excess(current.estimate)
    used = {step.group for step in current.steps}
    best: tuple[float, Plan] | None = None
    for step in _expressible(current.run, search):
        if step.group in used or not _within(step, quality):
            continue
        plan = _plan(run, (*current.steps, step), search)
        gain = over - excess(plan.estimate)
        if plan.estimate.allocated_bytes is None or gain <= 0 or not _accepted(plan, search):
            continue
        score = gain / (0.05 + cost(step))
        if not excess(plan.estimate):
            # Whatever finishes the job is worth more than a larger step that does not.
            score = 2 * over / (0.05 + cost(step))
        if best is None or score > best[0]:
            best = score, plan
    return None if best is None else best[1]


def _pruned(run: Run, plan: Plan, search: Search) -> Plan:
    """The plan without the steps that it fits without, dearest first."""
    for step in sorted(plan.steps, key=cost, reverse=True):
        fewer = tuple(other for other in plan.steps if other is not step)
        rest = _plan(run, fewer, search)
        if fewer and not excess(rest.estimate) and _accepted(rest, search):
            plan = rest
    return plan


def _weakened(run: Run, plan: Plan, search: Search, quality: str) -> Plan:
    """The plan with each step replaced by the cheapest of its group with which it still fits."""
    for step in plan.steps:
        for rival in _expressible(run, search):
            if rival.group == step.group and cost(rival) < cost(step) and _within(rival, quality):
                swapped = tuple(rival if other is step else other for other in plan.steps)
                weaker = _plan(run, swapped, search)
                if not excess(weaker.estimate) and _accepted(weaker, search):
                    plan = weaker
                    break
    return plan


def _single_step_rivals(run: Run, before: Estimate, search: Search, quality: str, plan: Plan) -> Iterator[Plan]:
    """Other single steps of the tier that fit alone: an alternative in kind, not a variant of the same."""
    groups = {step.group for step in plan.steps}
    for step in _expressible(run, search):
        if step.group not in groups and _within(step, quality):
            rival = _plan(run, (step,), search)
            if rival.estimate.allocated_bytes is not None and not excess(rival.estimate) and _accepted(rival, search):
                groups.add(step.group)
                yield rival


def _within(step: Step, quality: str) -> bool:
    return QUALITIES.index(step.quality) <= QUALITIES.index(quality)


def _plan(run: Run, chosen: tuple[Step, ...], search: Search) -> Plan:
    changed = replace(run, {name: value for step in chosen for name, value in step.changes.items()})
    return Plan(chosen, changed, search.estimate(changed))


def _expressible(run: Run, search: Search) -> Iterable[Step]:
    for step in steps(run):
        if search.express is None or search.express(run, step.changes) is not None:
            yield step


def _accepted(plan: Plan, search: Search) -> bool:
    return search.accept is None or search.accept(plan.run)


def as_fix(plan: Plan, before: Estimate, edits: tuple[Edit, ...] = ()) -> Fix:
    """The plan as findings and reports carry it."""
    speed = 1.0
    for step in plan.steps:
        speed *= step.speed
    quality = max((step.quality for step in plan.steps), key=QUALITIES.index, default="none")
    return Fix(
        title="; ".join(step.title for step in plan.steps),
        edits=edits,
        changes=plan.changes,
        safe=all(step.safe for step in plan.steps),
        speed=round(speed, 3),
        quality=quality,
        peak_before=peak(before) or 0,
        peak_after=peak(plan.estimate) or 0,
        verdict_after=plan.estimate.verdict if before.budget_bytes else "",
        note="; ".join(step.note for step in plan.steps if step.note),
    )


def largest(run: Run, field: str, start: int, search: Search = Search(), most: int = 1 << 24) -> int:  # noqa: B008
    """The largest value of `field` from `start` on that fits, found by doubling and halving; 0 where none does.

    Memory grows with batch and length, so what fits is a prefix.
    """
    if not _fits(run, field, start, search):
        return 0
    low = start
    while low * 2 <= most and _fits(run, field, low * 2, search):
        low *= 2
    high = low * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(run, field, middle, search) else (low, middle)
    return low


def _fits(run: Run, field: str, value: int, search: Search) -> bool:
    return search.estimate(replace(run, {field: value})).verdict == "fits"
