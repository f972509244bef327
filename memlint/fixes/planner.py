"""What makes a run fit: the cheapest combinations of moves, every one estimated anew in full.

For each tier of quality risk (none, low, medium, high) the search adds the step that takes off most of
the excess per unit of price until the run fits, then drops every step that turned out to be unneeded and
weakens those that can be weaker. Excess is summed over the phases, so that a run whose backward and
optimizer step are both too large makes progress with either. Where no other step helps, one that was
taken gives way to a stronger one of its group. Prices differ by what is wanted: the result kept, the
shortest steps, or the fewest changes. No combination is estimated twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit, Fix
from memlint.fixes.consequences import consistent
from memlint.fixes.moves.catalog import steps
from memlint.fixes.step import QUALITIES, ProposedChange, cost, haste
from memlint.memory import estimate as closed_form
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
Accept = Callable[[Run], bool]
Price = Callable[[ProposedChange], float]

# A change that takes off less is noise beside the interval of the device figure.
WORTHWHILE = 0.005
_WORTH_SAYING = 8 << 30
MAX_STEPS = 6
DEAR = 1.2  # what costs so much more than another plan of its tier (more than twice the time) is no alternative to it
MOST_HOST_BYTES = 2 << 40  # of a DGX H100 (NVIDIA DGX H100 datasheet: 2 TB); desktops have a twentieth of it
ENOUGH = 3


class Plan(NamedTuple):
    """Steps that together make the run fit (or help, from `candidates`), with the run and estimate they lead to."""

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
        """Factor on the time of a step."""
        return math.prod(step.speed for step in self.steps)

    @property
    def risk(self) -> int:
        """The place of the riskiest step in QUALITIES."""
        return max((QUALITIES.index(step.quality) for step in self.steps), default=0)


class SearchHooks(NamedTuple):
    """What a search is given. `express` says whether the format can write a change, `accept` whether rules object."""

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


def plans(run: Run, before: Estimate, search: SearchHooks = NO_HOOKS, limit: int = ENOUGH) -> tuple[Plan, ...]:
    """At most `limit` plans of different character that fit the card, cheapest first.

    The one that risks least for the result, the fastest and the one of fewest changes are among them; then the
    cheapest others. Empty where nothing fits or no card is known.
    """
    if not before.budget_bytes or before.allocated_bytes is None or before.verdict == "fits":
        return ()
    planning = PlanSearch(run, before, search)
    found: dict[frozenset[tuple[str, Any]], Plan] = {}
    for quality in QUALITIES:
        for plan in _of_tier(planning, quality):
            found.setdefault(frozenset(plan.changes.items()), plan)
        if len(found) >= limit:
            break
    if 0 < len(found) < ENOUGH:  # dear ones are better than none
        cheapest = min(found.values(), key=lambda one: one.cost)
        for plan in _single_step_rivals(planning, QUALITIES[-1], cheapest, math.inf):
            found.setdefault(frozenset(plan.changes.items()), plan)
    return _of_each_character(tuple(found.values()), limit)


def _of_tier(planning: PlanSearch, quality: str) -> Iterator[Plan]:
    """The plans of one tier of risk: cheapest, another way than its dearest step, single steps, fastest."""
    plan = _search(planning, quality, cost)
    if plan is None:
        return
    yield plan
    dearest = max(plan.steps, key=cost)
    if dearest.quality != "none":
        other = _search(planning, quality, cost, without=dearest.group)
        if other is not None:
            yield other
    yield from _single_step_rivals(planning, quality, plan, plan.cost + DEAR)
    if len(plan.steps) > 1:
        fast = _search(planning, quality, haste)
        if fast is not None:
            yield fast


def _of_each_character(found: tuple[Plan, ...], limit: int) -> tuple[Plan, ...]:
    """Of the plans found the least risky, the fastest, the one of fewest changes, and the cheapest for the rest."""
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


def candidates(run: Run, before: Estimate, search: SearchHooks = NO_HOOKS, limit: int = ENOUGH) -> tuple[Plan, ...]:
    """Single steps that lower the peak, cheapest first: what to offer where no card is known or nothing fits."""
    high = peak(before)
    if high is None:
        return ()
    planning = PlanSearch(run, before, search)
    helpful: dict[str, Plan] = {}
    for step in planning.steps(planning.start):
        plan = planning.plan((step,))
        after = peak(plan.estimate)
        if after is not None and high - after > WORTHWHILE * high and planning.accepts(plan):
            best = helpful.get(step.group)
            if best is None or (plan.cost, -(high - after)) < (best.cost, 0):
                helpful[step.group] = plan
    return tuple(sorted(helpful.values(), key=lambda item: item.cost)[:limit])


class PlanSearch:
    """One planning for one run: combinations are estimated, and changes asked of the format, once each."""

    def __init__(self, run: Run, before: Estimate, search: SearchHooks) -> None:
        self.run = run
        self.start = Plan((), run, before)
        self._search = search
        self._host = run.hardware.host_bytes or MOST_HOST_BYTES
        self._plans: dict[frozenset[str], Plan] = {}
        self._steps: dict[frozenset[str], tuple[ProposedChange, ...]] = {}
        self._sayable: dict[str, bool] = {}
        self.gains: dict[str, int] = {}  # excess that a step took off when it was last tried, by title

    def plan(self, chosen: tuple[ProposedChange, ...]) -> Plan:
        """The run after these steps, estimated."""
        if not chosen:
            return self.start
        key = frozenset(step.title for step in chosen)
        if key not in self._plans:
            changed = replace(self.run, {name: value for step in chosen for name, value in step.changes.items()})
            changed = consistent(changed, self.run)
            self._plans[key] = Plan(chosen, changed, self._search.estimate(changed))
        return self._plans[key]._replace(steps=chosen)

    def steps(self, plan: Plan) -> tuple[ProposedChange, ...]:
        """What can be tried on the plan's run and the format can say."""
        key = frozenset(step.title for step in plan.steps)
        if key not in self._steps:
            self._steps[key] = tuple(step for step in steps(plan.run) if self._says(plan.run, step))
        return self._steps[key]

    def _says(self, run: Run, step: ProposedChange) -> bool:
        if self._search.express is None:
            return True
        if step.title not in self._sayable:
            self._sayable[step.title] = self._search.express(run, step.changes) is not None
        return self._sayable[step.title]

    def accepts(self, plan: Plan) -> bool:
        if (plan.estimate.host_bytes or 0) > max(self._host, self.start.estimate.host_bytes or 0):
            return False
        return self._search.accept is None or self._search.accept(plan.run)


def _search(planning: PlanSearch, quality: str, price: Price, without: str = "") -> Plan | None:
    """The plan of one tier: greedy by excess taken off per price, then pruned and weakened. `without`: a group."""
    current = planning.start
    while excess(current.estimate):
        more = _best_next(planning, current, quality, price, without) if len(current.steps) < MAX_STEPS else None
        best = more or _stronger(planning, current, quality, price)
        if best is None:
            return None
        current = best
    return _weakened(planning, _pruned(planning, current), quality, price)


def _best_next(planning: PlanSearch, current: Plan, quality: str, price: Price, without: str) -> Plan | None:
    """The plan with one more step: of those that promise the most, the best; of all, where none of them helps."""
    used = {without, *(step.group for step in current.steps)}
    open_ = [step for step in planning.steps(current) if step.group not in used and _within(step, quality)]
    return _best_of(planning, current, open_, price, trusting=True) or _best_of(planning, current, open_, price, False)


def _best_of(
    planning: PlanSearch, current: Plan, open_: list[ProposedChange], price: Price, trusting: bool
) -> Plan | None:
    """`trusting`: steps are judged first by what they took off when last tried, and the rest is not estimated."""
    over = excess(current.estimate)

    def worth(taken: int, step: ProposedChange) -> float:
        # Whatever finishes the job is worth more than a larger step that does not.
        return (2 * over if taken >= over else taken) / (0.05 + price(step))

    def promise(step: ProposedChange) -> float:
        return worth(2 * planning.gains.get(step.title, over) if trusting else over, step)

    best: tuple[float, Plan] | None = None
    for step in sorted(open_, key=promise, reverse=True):
        if promise(step) <= (0 if best is None else best[0]):
            break
        plan = planning.plan((*current.steps, step))
        taken = planning.gains[step.title] = _taken(plan, over)
        if not taken or not planning.accepts(plan):
            continue
        score = worth(taken, step)
        if best is None or score > best[0]:
            best = score, plan
    return None if best is None else best[1]


def _taken(plan: Plan, over: int) -> int:
    """What a plan takes off an excess of `over` bytes; nothing where nobody knows."""
    return max(0, over - excess(plan.estimate)) if plan.estimate.allocated_bytes is not None else 0


def _stronger(planning: PlanSearch, current: Plan, quality: str, price: Price) -> Plan | None:
    """The plan with one of its steps in the place of which stands another of its group that takes off more: greed may
    have taken a cheap step (half the length) where only a dear one of its kind (an eighth) is enough."""
    over = excess(current.estimate)
    best: tuple[float, Plan] | None = None
    for step in current.steps:
        for rival in planning.steps(planning.start):
            weaker = rival.group != step.group or rival.title == step.title or price(rival) < price(step)
            if weaker or not _within(rival, quality):
                continue
            plan = planning.plan(tuple(rival if other is step else other for other in current.steps))
            taken = _taken(plan, over)
            if not taken or not planning.accepts(plan):
                continue
            score = taken / (0.05 + price(rival))
            if best is None or score > best[0]:
                best = score, plan
    return None if best is None else best[1]


def _pruned(planning: PlanSearch, plan: Plan) -> Plan:
    """The plan without the steps that it fits without, dearest first."""
    for step in sorted(plan.steps, key=cost, reverse=True):
        fewer = tuple(other for other in plan.steps if other is not step)
        rest = planning.plan(fewer)
        if fewer and not excess(rest.estimate) and planning.accepts(rest):
            plan = rest
    return plan


def _weakened(planning: PlanSearch, plan: Plan, quality: str, price: Price) -> Plan:
    """The plan with each step replaced by the cheapest of its group with which it still fits."""
    for step in plan.steps:
        for rival in planning.steps(planning.start):
            if rival.group == step.group and price(rival) < price(step) and _within(rival, quality):
                weaker = planning.plan(tuple(rival if other is step else other for other in plan.steps))
                if not excess(weaker.estimate) and planning.accepts(weaker):
                    plan = weaker
                    break
    return plan


# Groups whose steps come from the weakest to the strongest: where the last does not fit, none does.
LADDERS = ("batch", "sequence", "images")


def _single_step_rivals(planning: PlanSearch, quality: str, plan: Plan, dearest: float) -> Iterator[Plan]:
    """Other single steps of the tier that fit alone: an alternative in kind, not a variant of the same."""
    within = [step for step in planning.steps(planning.start) if _within(step, quality) and cost(step) <= dearest]
    last = {step.group: step for step in within if step.group in LADDERS}
    groups = {step.group for step in plan.steps} if len(plan.steps) == 1 else set()
    groups |= {group for group, step in last.items() if group not in groups and not _fits_alone(planning, step)}
    for step in within:
        if step.group not in groups and _fits_alone(planning, step):
            groups.add(step.group)
            yield planning.plan((step,))


def _fits_alone(planning: PlanSearch, step: ProposedChange) -> bool:
    plan = planning.plan((step,))
    return plan.estimate.allocated_bytes is not None and not excess(plan.estimate) and planning.accepts(plan)


def _within(step: ProposedChange, quality: str) -> bool:
    return QUALITIES.index(step.quality) <= QUALITIES.index(quality)


def as_fix(plan: Plan, before: Estimate, edits: tuple[Edit, ...] = ()) -> Fix:
    """The plan as findings and reports carry it."""
    return Fix(
        title="; ".join(step.title for step in plan.steps),
        edits=edits,
        changes=plan.changes,
        safe=all(step.safe for step in plan.steps),
        speed=round(plan.speed, 3),
        quality=QUALITIES[plan.risk],
        peak_before=peak(before) or 0,
        peak_after=peak(plan.estimate) or 0,
        verdict_after=plan.estimate.verdict if before.budget_bytes else "",
        note="; ".join((*(step.note for step in plan.steps if step.note), *_host(plan, before))),
    )


def _host(plan: Plan, before: Estimate) -> Iterator[str]:
    """What the plan wants of the host: who has no such host cannot use it."""
    wanted, had = plan.estimate.host_bytes or 0, before.host_bytes or 0
    if wanted > had + _WORTH_SAYING:
        yield f"the host needs {wanted / 2**30:.1f} GiB of memory"


def largest(run: Run, field: str, start: int, search: SearchHooks = NO_HOOKS, most: int = 1 << 24) -> int:
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


def _fits(run: Run, field: str, value: int, search: SearchHooks) -> bool:
    return search.estimate(replace(run, {field: value})).verdict == "fits"
