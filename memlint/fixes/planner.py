"""The planner: the cheapest combinations of changes with which a run fits its card.

A plan is a tuple of proposed changes (`steps`). Every combination is estimated in full, and none twice.

For each tier of quality risk (none, low, medium, high) the search is greedy:

1. Add the change that saves most of the excess per unit of price, until the run fits. The excess is the bytes over the
   budget, summed over the phases, so that a run whose backward and optimizer step are both too large makes progress
   with either. Where no further change helps, replace one by a stronger change of its group.
2. Drop the changes without which the run fits as well.
3. Replace the others by weaker ones of their group, where the run still fits.

The price depends on what is wanted: the same training result, short training steps, or few changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit, Fix
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.catalog import steps
from memlint.fixes.proposed_change import QUALITIES, ProposedChange, cost, time_cost
from memlint.memory import estimate as closed_form
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
Accept = Callable[[Run], bool]
Price = Callable[[ProposedChange], float]

# A smaller share of the peak is noise beside the interval of the device figure.
WORTHWHILE = 0.005
_HOST_BYTES_WORTH_A_NOTE = 8 << 30
MAX_CHANGES = 6
MAX_EXTRA_COST = (
    1.2  # a plan that costs so much more than the cheapest of its tier (more than twice the time) is no alternative
)
MOST_HOST_BYTES = 2 << 40  # of a DGX H100 (NVIDIA DGX H100 datasheet: 2 TB); desktops have a twentieth of it
WANTED_PLANS = 3


class Plan(NamedTuple):
    """Changes with which the run fits (or from `candidates`: needs less), with the changed run and its estimate."""

    steps: tuple[ProposedChange, ...]
    run: Run
    estimate: Estimate

    @property
    def changes(self) -> dict[str, Any]:
        return {name: value for step in self.steps for name, value in step.changes.items()}

    @property
    def cost(self) -> float:
        return sum(map(cost, self.steps))

    @property
    def speed(self) -> float:
        """Factor on the time of a training step."""
        return math.prod(step.speed for step in self.steps)

    @property
    def risk(self) -> int:
        """Index in QUALITIES of the riskiest change."""
        return max((QUALITIES.index(step.quality) for step in self.steps), default=0)


class SearchHooks(NamedTuple):
    """Functions that the planner calls. `express`: the edits that write a change, or None where the format cannot.
    `accept`: whether the rules accept a run."""

    estimate: Estimator = closed_form
    express: Express | None = None
    accept: Accept | None = None


NO_HOOKS = SearchHooks()


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


def plans(run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS) -> tuple[Plan, ...]:
    """At most `limit` different plans that fit the card, cheapest first.

    Among them are the one with the least risk for the result, the fastest and the one with the fewest changes; then the
    cheapest others. Empty where nothing fits or no card is known.
    """
    if not before.budget_bytes or before.allocated_bytes is None or before.verdict == "fits":
        return ()
    search = PlanSearch(run, before, hooks)
    found: dict[frozenset[tuple[str, Any]], Plan] = {}
    for quality in QUALITIES:
        for plan in _of_tier(search, quality):
            found.setdefault(frozenset(plan.changes.items()), plan)
        if len(found) >= limit:
            break
    if 0 < len(found) < WANTED_PLANS:  # dear ones are better than none
        cheapest = min(found.values(), key=lambda one: one.cost)
        for plan in _single_change_plans(search, QUALITIES[-1], cheapest, math.inf):
            found.setdefault(frozenset(plan.changes.items()), plan)
    return _of_each_character(tuple(found.values()), limit)


def _of_tier(search: PlanSearch, quality: str) -> Iterator[Plan]:
    """The plans of one tier of risk: the cheapest, one without its most expensive group of changes, single changes, the
    fastest."""
    plan = _cheapest_plan(search, quality, cost)
    if plan is None:
        return
    yield plan
    dearest = max(plan.steps, key=cost)
    if dearest.quality != "none":
        other = _cheapest_plan(search, quality, cost, without=dearest.group)
        if other is not None:
            yield other
    yield from _single_change_plans(search, quality, plan, plan.cost + MAX_EXTRA_COST)
    if len(plan.steps) > 1:
        fast = _cheapest_plan(search, quality, time_cost)
        if fast is not None:
            yield fast


def _of_each_character(found: tuple[Plan, ...], limit: int) -> tuple[Plan, ...]:
    """Of the plans found: the least risky, the fastest, the one with the fewest changes, then the cheapest."""
    if not found:
        return ()
    wanted = (
        min(found, key=lambda plan: (plan.risk, plan.cost)),
        min(found, key=lambda plan: (plan.speed, plan.cost)),
        min(found, key=lambda plan: (len(plan.steps), plan.cost)),
        *sorted(found, key=lambda plan: plan.cost),
    )
    chosen: list[Plan] = []
    for plan in wanted:
        if plan not in chosen:
            chosen.append(plan)
    return tuple(sorted(chosen[:limit], key=lambda plan: plan.cost))


def candidates(
    run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS
) -> tuple[Plan, ...]:
    """Single changes that lower the peak, cheapest first: what to offer where no card is known or nothing fits."""
    high = peak(before)
    if high is None:
        return ()
    search = PlanSearch(run, before, hooks)
    helpful: dict[str, Plan] = {}
    for step in search.steps(search.start):
        plan = search.plan((step,))
        after = peak(plan.estimate)
        if after is not None and high - after > WORTHWHILE * high and search.accepts(plan):
            best = helpful.get(step.group)
            if best is None or (plan.cost, -(high - after)) < (best.cost, 0):
                helpful[step.group] = plan
    return tuple(sorted(helpful.values(), key=lambda item: item.cost)[:limit])


class PlanSearch:
    """The search for one run. It remembers estimates of combinations, and which changes the format can write."""

    def __init__(self, run: Run, before: Estimate, hooks: SearchHooks) -> None:
        self.run = run
        self.start = Plan((), run, before)
        self._hooks = hooks
        self._host = run.hardware.host_bytes or MOST_HOST_BYTES
        self._plans: dict[frozenset[str], Plan] = {}
        self._steps: dict[frozenset[str], tuple[ProposedChange, ...]] = {}
        self._sayable: dict[str, bool] = {}
        self.gains: dict[str, int] = {}  # excess that a step took off when it was last tried, by title

    def plan(self, chosen: tuple[ProposedChange, ...]) -> Plan:
        """The run after these changes, with its estimate."""
        if not chosen:
            return self.start
        key = frozenset(step.title for step in chosen)
        if key not in self._plans:
            changed = replace(self.run, {name: value for step in chosen for name, value in step.changes.items()})
            changed = consistent(changed, self.run)
            self._plans[key] = Plan(chosen, changed, self._hooks.estimate(changed))
        return self._plans[key]._replace(steps=chosen)

    def steps(self, plan: Plan) -> tuple[ProposedChange, ...]:
        """The changes that can be tried on the plan's run and that the format can write."""
        key = frozenset(step.title for step in plan.steps)
        if key not in self._steps:
            self._steps[key] = tuple(step for step in steps(plan.run) if self._says(plan.run, step))
        return self._steps[key]

    def _says(self, run: Run, step: ProposedChange) -> bool:
        if self._hooks.express is None:
            return True
        if step.title not in self._sayable:
            self._sayable[step.title] = self._hooks.express(run, step.changes) is not None
        return self._sayable[step.title]

    def accepts(self, plan: Plan) -> bool:
        if (plan.estimate.host_bytes or 0) > max(self._host, self.start.estimate.host_bytes or 0):
            return False
        return self._hooks.accept is None or self._hooks.accept(plan.run)


def _cheapest_plan(search: PlanSearch, quality: str, price: Price, without: str = "") -> Plan | None:
    """The plan of one tier, see the module's docstring. `without`: a group whose changes are left out."""
    current = search.start
    while excess(current.estimate):
        more = _with_best_change(search, current, quality, price, without) if len(current.steps) < MAX_CHANGES else None
        best = more or _with_stronger(search, current, quality, price)
        if best is None:
            return None
        current = best
    return _with_weaker(search, _without_unneeded(search, current), quality, price)


def _with_best_change(search: PlanSearch, current: Plan, quality: str, price: Price, without: str) -> Plan | None:
    """The plan with one more change: the best of the most promising; of all, where none of those helps."""
    used = {without, *(step.group for step in current.steps)}
    open_changes = [step for step in search.steps(current) if step.group not in used and _is_within(step, quality)]
    return _best_of(search, current, open_changes, price, by_last_gain=True) or _best_of(
        search, current, open_changes, price, False
    )


def _best_of(
    search: PlanSearch, current: Plan, open_changes: list[ProposedChange], price: Price, by_last_gain: bool
) -> Plan | None:
    """The plan with the best of the changes. `by_last_gain`: changes that saved too little when they were last tried
    are not estimated again."""
    over = excess(current.estimate)

    def worth(taken: int, step: ProposedChange) -> float:
        # Whatever finishes the job is worth more than a larger step that does not.
        return (2 * over if taken >= over else taken) / (0.05 + price(step))

    def promise(step: ProposedChange) -> float:
        return worth(2 * search.gains.get(step.title, over) if by_last_gain else over, step)

    best: tuple[float, Plan] | None = None
    for step in sorted(open_changes, key=promise, reverse=True):
        if promise(step) <= (0 if best is None else best[0]):
            break
        plan = search.plan((*current.steps, step))
        taken = search.gains[step.title] = _bytes_saved(plan, over)
        if not taken or not search.accepts(plan):
            continue
        score = worth(taken, step)
        if best is None or score > best[0]:
            best = score, plan
    return None if best is None else best[1]


def _bytes_saved(plan: Plan, over: int) -> int:
    """Bytes that a plan saves of an excess of `over` bytes; 0 where its estimate is unknown."""
    return max(0, over - excess(plan.estimate)) if plan.estimate.allocated_bytes is not None else 0


def _with_stronger(search: PlanSearch, current: Plan, quality: str, price: Price) -> Plan | None:
    """The plan with one change replaced by a stronger one of its group. The greedy search may have taken a cheap change
    (half the length) where only a more expensive one of its kind (an eighth) is enough."""
    over = excess(current.estimate)
    best: tuple[float, Plan] | None = None
    for step in current.steps:
        for rival in search.steps(search.start):
            weaker = rival.group != step.group or rival.title == step.title or price(rival) < price(step)
            if weaker or not _is_within(rival, quality):
                continue
            plan = search.plan(tuple(rival if other is step else other for other in current.steps))
            taken = _bytes_saved(plan, over)
            if not taken or not search.accepts(plan):
                continue
            score = taken / (0.05 + price(rival))
            if best is None or score > best[0]:
                best = score, plan
    return None if best is None else best[1]


def _without_unneeded(search: PlanSearch, plan: Plan) -> Plan:
    """The plan without the changes that it does not need, the most expensive tried first."""
    for step in sorted(plan.steps, key=cost, reverse=True):
        fewer = tuple(other for other in plan.steps if other is not step)
        rest = search.plan(fewer)
        if fewer and not excess(rest.estimate) and search.accepts(rest):
            plan = rest
    return plan


def _with_weaker(search: PlanSearch, plan: Plan, quality: str, price: Price) -> Plan:
    """The plan with each change replaced by the cheapest of its group with which the run still fits."""
    for step in plan.steps:
        for rival in search.steps(search.start):
            if rival.group == step.group and price(rival) < price(step) and _is_within(rival, quality):
                weaker = search.plan(tuple(rival if other is step else other for other in plan.steps))
                if not excess(weaker.estimate) and search.accepts(weaker):
                    plan = weaker
                    break
    return plan


# Groups whose changes are sorted from the weakest to the strongest: where the last one does not fit, none does.
GRADED_GROUPS = ("batch", "sequence", "images")


def _single_change_plans(search: PlanSearch, quality: str, plan: Plan, dearest: float) -> Iterator[Plan]:
    """Plans of one change of another group, with which the run fits: alternatives, not variants of the same change."""
    within = [step for step in search.steps(search.start) if _is_within(step, quality) and cost(step) <= dearest]
    last = {step.group: step for step in within if step.group in GRADED_GROUPS}
    groups = {step.group for step in plan.steps} if len(plan.steps) == 1 else set()
    groups |= {group for group, step in last.items() if group not in groups and not _fits_alone(search, step)}
    for step in within:
        if step.group not in groups and _fits_alone(search, step):
            groups.add(step.group)
            yield search.plan((step,))


def _fits_alone(search: PlanSearch, step: ProposedChange) -> bool:
    plan = search.plan((step,))
    return plan.estimate.allocated_bytes is not None and not excess(plan.estimate) and search.accepts(plan)


def _is_within(step: ProposedChange, quality: str) -> bool:
    return QUALITIES.index(step.quality) <= QUALITIES.index(quality)


def as_fix(plan: Plan, before: Estimate, edits: tuple[Edit, ...] = ()) -> Fix:
    """The plan as a fix of a finding."""
    return Fix(
        title="; ".join(step.title for step in plan.steps),
        edits=edits,
        changes=plan.changes,
        safe=all(step.safe for step in plan.steps),
        speed=round(plan.speed, 3),
        quality=QUALITIES[plan.risk],
        before=before.on_card,
        after=plan.estimate.on_card,
        verdict_after=plan.estimate.verdict if before.budget_bytes else "",
        note="; ".join((*(step.note for step in plan.steps if step.note), *_host_note(plan, before))),
    )


def _host_note(plan: Plan, before: Estimate) -> Iterator[str]:
    """A note where the plan needs much more host memory than the run did."""
    wanted, had = plan.estimate.host_bytes or 0, before.host_bytes or 0
    if wanted > had + _HOST_BYTES_WORTH_A_NOTE:
        yield f"the host needs {wanted / 2**30:.1f} GiB of memory"


def largest(run: Run, field: str, start: int, hooks: SearchHooks = NO_HOOKS, most: int = 1 << 24) -> int:
    """The largest value of `field` from `start` on that fits, found by doubling and halving; 0 where none does.

    Memory grows with batch and length, so what fits is a prefix.
    """
    if not _fits(run, field, start, hooks):
        return 0
    low = start
    while low * 2 <= most and _fits(run, field, low * 2, hooks):
        low *= 2
    high = low * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(run, field, middle, hooks) else (low, middle)
    return low


def _fits(run: Run, field: str, value: int, hooks: SearchHooks) -> bool:
    return hooks.estimate(replace(run, {field: value})).verdict == "fits"
