"""The planner: combinations of changes with which a run fits its card, the least risky first.

tiers.py finds the cheapest plan within a tier of risk; here is which tiers are asked, and which of the plans found are
worth offering. Further plans than the least risky one come from a search without the group of its dearest change, from
the order by time, and from single changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from memlint.fixes.costs import QUALITIES
from memlint.fixes.plan import (
    Kind,
    Plan,
    accepted_risk,
    adds_nothing,
    asks_for_more,
    beats,
    in_order,
    is_good,
    kind,
    makes_pointless,
    peak,
    saves,
)
from memlint.fixes.plan_search import NO_HOOKS, PlanSearch, SearchHooks
from memlint.fixes.proposed_change import ProposedChange, risk_first, time_first, weighed
from memlint.fixes.tiers import plan_of_tier, single_changes
from memlint.memory.values import Estimate
from memlint.run import Run

WANTED_PLANS = 3
_SLOW = 1.4  # more than checkpointing costs


class Planner:
    """Plans for one run, searched for as they are asked for: who wants the first alone does not wait for the others."""

    def __init__(self, run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS) -> None:
        self._run, self._before, self._hooks = run, before, hooks
        self._in_one_reading = _Drawn(PlanSearch(run._replace(readings=()), before, hooks))
        self._in_all_readings = _Drawn(PlanSearch(run, before, hooks))

    def plans(self, limit: int = WANTED_PLANS) -> tuple[Plan, ...]:
        """At most `limit` different plans that fit the card: the least risky first, then the fastest.

        Among them are the one with the least risk for the result, the fastest and the one with the fewest changes.
        Empty where nothing fits or no card is known.
        """
        before = self._before
        if not before.budget_bytes or before.allocated_bytes is None or before.verdict == "fits":
            return ()
        found = self._in_one_reading.plans(limit)
        if all(_fits_however_read(plan, self._run, self._hooks) for plan in found):
            return found
        return self._in_all_readings.plans(limit)

    def first_as_it_stands(self) -> Plan | None:
        """The first plan for the run itself, whether or not it fits in the other readings of the files."""
        over = self._before.verdict != "fits" and self._before.budget_bytes and self._before.allocated_bytes is not None
        return next(iter(self._in_one_reading.plans(1)), None) if over else None


def plans(run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS) -> tuple[Plan, ...]:
    """`Planner.plans` of a run that is asked about once."""
    return Planner(run, before, hooks).plans(limit)


class _Drawn:
    """The plans of one search, of different kinds, drawn from it as they are asked for."""

    def __init__(self, search: PlanSearch) -> None:
        self._source = _found(search)
        self._known: dict[Kind, Plan] = {}

    def plans(self, limit: int) -> tuple[Plan, ...]:
        while len(self._known) < limit and (plan := next(self._source, None)) is not None:
            if not any(adds_nothing(plan, one) or makes_pointless(one, plan) for one in self._known.values()):
                self._known.setdefault(kind(plan), plan)
        return _of_each_character(tuple(islice(self._known.values(), limit)), limit)


def _fits_however_read(plan: Plan, run: Run, hooks: SearchHooks) -> bool:
    """Whether a plan that was searched in one reading of the files fits in the others. What has all its changes and
    more then fits in all of them as well, so that the search in all readings would find no other plan."""
    return not run.readings or hooks.estimate(plan.run._replace(readings=run.readings)).verdict == "fits"


def riskless(run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS) -> Plan | None:
    """A plan that fits and keeps the training result as it is; without steps where the run fits already. None where
    there is none."""
    if before.verdict == "fits":
        return Plan((), run, before)
    for read in (run._replace(readings=()), run):
        plan = plan_of_tier(PlanSearch(read, before, hooks), QUALITIES[0], risk_first)
        if plan is None or _fits_however_read(plan, run, hooks):
            return plan
    return None


def _found(search: PlanSearch) -> Iterator[Plan]:
    """Plans of different kinds, the first of which is the first to offer: the least risky, one of the same tier without
    its dearest change, the fastest, single changes."""
    least = next(filter(None, (plan_of_tier(search, quality, risk_first) for quality in QUALITIES)), None)
    if least is None:
        return
    tiers = QUALITIES[least.risk :]
    beside = (_faster(search, least), _without_dearest(search, least, tiers[:1]))
    yield from sorted((plan for plan in (least, *beside) if plan is not None), key=in_order)
    riskier = max(tiers[0], "medium", key=QUALITIES.index)
    others = tiers[1:-1] if is_good(least) else tiers[1:]
    if not any(beside) and (other := _without_dearest(search, least, others)) is not None:
        yield other
        if all(map(_groups_that_ask_for_more, (least, other))):
            asked = (_without(search, group, others) for group in _groups_that_ask_for_more(least)[:1])
            yield from filter(None, asked)
    if (fast := plan_of_tier(search, riskier, time_first)) is not None:
        yield fast
    yield from single_changes(search, riskier)


def _faster(search: PlanSearch, least: Plan) -> Plan | None:
    """Where the least risky plan is slow, the fastest of the next tier, or of one that so slow a step is worth: as it
    comes, or where that is no faster, without what asks for another engine or for the host's memory."""
    if least.speed <= _SLOW:
        return None
    last = max(least.risk + 1, accepted_risk(least))
    found = (
        plan_of_tier(search, quality, time_first, without)
        for quality in QUALITIES[least.risk + 1 : last + 1]
        for without in ("", *_groups_that_ask_for_more(least))
    )
    return next((plan for plan in found if plan is not None and plan.speed < least.speed), None)


def _without_dearest(search: PlanSearch, least: Plan, tiers: tuple[str, ...]) -> Plan | None:
    """The least risky plan of these tiers without the dearest change of `least`."""
    return _without(search, max(least.steps, key=risk_first).group, tiers)


def _without(search: PlanSearch, group: str, tiers: tuple[str, ...]) -> Plan | None:
    """The least risky plan of these tiers without a group of changes."""
    found = (plan_of_tier(search, quality, risk_first, without=group) for quality in tiers)
    return next(filter(None, found), None)


def _groups_that_ask_for_more(plan: Plan) -> tuple[str, ...]:
    """The groups of the changes that need another engine or memory of the host."""
    return tuple(dict.fromkeys(step.group for step in plan.steps if asks_for_more(step)))


def _of_each_character(found: tuple[Plan, ...], limit: int) -> tuple[Plan, ...]:
    """Of the plans found: the first, the least risky, the fastest, the one with the fewest changes, then the cheapest.
    A plan that another one beats in risk, time and number of changes stands back, and one that another makes pointless
    goes. The first stays the first, so that it is known before the others are."""
    found = tuple(
        plan for plan in found if plan is found[0] or not any(makes_pointless(other, plan) for other in found)
    )
    if not found:
        return ()
    ahead = [plan for plan in found if not any(beats(other, plan) for other in found)]
    wanted = (
        found[0],
        min(found, key=lambda plan: (plan.risk, plan.speed)),
        min(ahead, key=lambda plan: (plan.speed, plan.cost)),
        min(ahead, key=lambda plan: (len(plan.steps), plan.cost)),
        *sorted(ahead, key=lambda plan: plan.cost),
        *sorted(found, key=lambda plan: plan.cost),
    )
    chosen: list[Plan] = []
    for plan in wanted:
        if plan not in chosen:
            chosen.append(plan)
    return tuple(sorted(chosen[:limit], key=lambda plan: (plan is not found[0], in_order(plan))))


def candidates(
    run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS
) -> tuple[Plan, ...]:
    """Single changes that lower the peak, of each group the cheapest: what to offer where no card is known or nothing
    fits. Of changes that cost as much the strongest is asked first, and the dearer ones are not asked about then."""
    if peak(before) is None:
        return ()
    search = PlanSearch(run._replace(readings=()), before, hooks)

    def helps(plan: Plan) -> bool:
        return saves(before, plan.estimate) and search.accepts(plan.run, plan.estimate)

    groups: dict[str, list[ProposedChange]] = {}
    for step in reversed(search.steps(())):
        groups.setdefault(step.group, []).append(step)
    cheapest_first = (sorted(group, key=lambda step: weighed(step.price)) for group in groups.values())
    helpful = (next(filter(helps, (search.plan((step,)) for step in group)), None) for group in cheapest_first)
    return tuple(sorted((plan for plan in helpful if plan is not None), key=in_order)[:limit])
