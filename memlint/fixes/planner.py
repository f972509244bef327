"""The planner: combinations of changes with which a run fits its card, the least risky first.

A plan is a tuple of proposed changes (`steps`). Every combination is estimated in full, and none twice.

For a tier of risk (none, low, medium, high) the search goes backwards:

1. Take the strongest change of every group that the tier allows. Where the run does not fit then, no plan of the tier
   does: every change lowers the peak or leaves it. Of groups for which that does not hold, it is tried without. (The
   cheaper half of the changes is estimated first: where it is enough, all are.)
2. Drop changes, the dearest first, as long as the run fits. As each change only helps, the longest run of changes that
   can be dropped at once is found by bisection.
3. Replace each change that is left by the cheapest of its group with which the run still fits.

What is dearest depends on what is wanted: the same training result, or short steps. Further plans come from a search
without the group of the dearest change, and from single changes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import log2
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit, Fix
from memlint.fixes.consequences import FIELDS, consistent
from memlint.fixes.costs import QUALITIES, Cost, between, model_of
from memlint.fixes.moves.catalog import GRADED_GROUPS, STRUCTURE, WHOLE_BATCH, steps
from memlint.fixes.proposed_change import (
    ProposedChange,
    about,
    needs_host,
    risk_first,
    rounded,
    time_first,
    weighed,
    with_effort,
)
from memlint.fixes.step_time import ParameterCounts
from memlint.memory import estimate as closed_form
from memlint.memory.estimate import estimate_unless_over
from memlint.memory.values import Estimate
from memlint.run import Run, replace

Estimator = Callable[[Run], Estimate]
Express = Callable[[Run, Mapping[str, Any]], "tuple[Edit, ...] | None"]
Accept = Callable[[Run], bool]
Order = Callable[[ProposedChange], Any]
Steps = tuple[ProposedChange, ...]

# A smaller share of the peak is noise beside the interval of the device figure.
WORTHWHILE = 0.005
_HOST_BYTES_WORTH_A_NOTE = 8 << 30
MOST_HOST_BYTES = 2 << 40  # of a DGX H100 (NVIDIA DGX H100 datasheet: 2 TB); desktops have a twentieth of it
WANTED_PLANS = 3
_RIVALS_TRIED = 4  # other changes of a group that are tried in place of one
_ACCUMULATION = "batch.gradient_accumulation_steps"
_ROUNDS = 4  # changes may open others: checkpointing opens checkpoints in host memory


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


class SearchHooks(NamedTuple):
    """Functions that the planner calls. `express`: the edits that write a change, or None where the format cannot.
    `accept`: whether a run is acceptable. `margin`: bytes to stay below the budget. `banned`: titles of changes that
    are left out."""

    estimate: Estimator = closed_form
    express: Express | None = None
    accept: Accept | None = None
    margin: int = 0
    banned: frozenset[str] = frozenset()


NO_HOOKS = SearchHooks()


def peak(estimate: Estimate) -> int | None:
    """The bytes that the verdict compares with the card: the upper end of the device interval."""
    return estimate.device_high_bytes


def excess(estimate: Estimate) -> int:
    """Bytes over the budget; 0 where the run fits, or where nothing is known."""
    return max(0, (estimate.device_high_bytes or 0) - estimate.budget_bytes)


def plans(run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS) -> tuple[Plan, ...]:
    """At most `limit` different plans that fit the card: the least risky first, then the fastest.

    Among them are the one with the least risk for the result, the fastest and the one with the fewest changes. Empty
    where nothing fits or no card is known.
    """
    if not before.budget_bytes or before.allocated_bytes is None or before.verdict == "fits":
        return ()
    found = _plans(run._replace(readings=()), before, hooks, limit)
    if all(_fits_however_read(plan, run, hooks) for plan in found):
        return found
    return _plans(run, before, hooks, limit)


def _fits_however_read(plan: Plan, run: Run, hooks: SearchHooks) -> bool:
    """Whether a plan that was searched in one reading of the files fits in the others. What has all its changes and
    more then fits in all of them as well, so that the search in all readings would find no other plan."""
    return not run.readings or hooks.estimate(plan.run._replace(readings=run.readings)).verdict == "fits"


def _plans(run: Run, before: Estimate, hooks: SearchHooks, limit: int) -> tuple[Plan, ...]:
    search = PlanSearch(run, before, hooks)
    found: dict[Kind, Plan] = {}
    for plan in _found(search):
        if not any(adds_nothing(plan, other) for other in found.values()):
            found.setdefault(kind(plan), plan)
        if len(found) == limit:
            break
    return _of_each_character(tuple(found.values()), limit)


def riskless(run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS) -> Plan | None:
    """A plan that fits and keeps the training result as it is; without steps where the run fits already. None where
    there is none."""
    if before.verdict == "fits":
        return Plan((), run, before)
    for read in (run._replace(readings=()), run):
        plan = _plan_of_tier(PlanSearch(read, before, hooks), QUALITIES[0], risk_first)
        if plan is None or _fits_however_read(plan, run, hooks):
            return plan
    return None


Kind = tuple[int, frozenset[str]]


def kind(plan: Plan) -> Kind:
    """What makes two plans variants of one: they change the same things, in another degree or another way (half the
    length or a quarter of it, one optimizer or another), and take about as long, in steps of 1.4 times."""
    return int(2 * log2(max(1.0, plan.speed))), frozenset(step.group for step in plan.steps)


def in_order(plan: Plan) -> tuple[Any, ...]:
    """The order of plans everywhere: by risk for the result, where it is high by how short sequences become, then by
    time as far as prices can tell, then those that the card does alone, then by the number of changes."""
    host, length = any(map(needs_host, plan.steps)), plan.run.sequence.length
    return (
        plan.risk,
        -length if isinstance(length, int) and plan.risk == len(QUALITIES) - 1 else 0,
        rounded(with_effort(plan.speed, plan.steps)),
        host,
        len(plan.steps),
        tuple(step.title for step in plan.steps),
    )


def _by_time(plan: Plan) -> tuple[Any, ...]:
    return rounded(with_effort(plan.speed, plan.steps)), *in_order(plan)


def _found(search: PlanSearch) -> Iterator[Plan]:
    """Plans of different kinds, the first of which is the first to offer: the least risky, one of the same tier without
    its dearest change, the fastest, single changes."""
    least = next(filter(None, (_plan_of_tier(search, quality, risk_first) for quality in QUALITIES)), None)
    if least is None:
        return
    tiers = QUALITIES[least.risk :]
    beside = _faster(search, least, tiers) or _without_dearest(search, least, tiers[:1])
    yield from sorted((plan for plan in (least, beside) if plan is not None), key=in_order)
    riskier = max(tiers[0], "medium", key=QUALITIES.index)
    if beside is None and (other := _without_dearest(search, least, tiers[1:])) is not None:
        yield other
    if (fast := _plan_of_tier(search, riskier, time_first)) is not None:
        yield fast
    yield from _single_changes(search, riskier)


def _faster(search: PlanSearch, least: Plan, tiers: tuple[str, ...]) -> Plan | None:
    """Where the least risky plan is slow, the fastest of the next tier."""
    if least.speed <= _SLOW or len(tiers) < 2:
        return None
    faster = _plan_of_tier(search, tiers[1], time_first)
    return faster if faster is not None and faster.speed < least.speed else None


def _without_dearest(search: PlanSearch, least: Plan, tiers: tuple[str, ...]) -> Plan | None:
    """The least risky plan of these tiers without the dearest change of `least`."""
    dearest = max(least.steps, key=risk_first)
    found = (_plan_of_tier(search, quality, risk_first, without=dearest.group) for quality in tiers)
    return next(filter(None, found), None)


def _of_each_character(found: tuple[Plan, ...], limit: int) -> tuple[Plan, ...]:
    """Of the plans found: the first, the fastest, the one with the fewest changes, then the cheapest. A plan that
    another one beats in risk, time and number of changes stands back, and one that another makes pointless goes. The
    first stays the first, so that it is known before the others are."""
    found = tuple(
        plan for plan in found if plan is found[0] or not any(_makes_pointless(other, plan) for other in found)
    )
    if not found:
        return ()
    ahead = [plan for plan in found if not any(_beats(other, plan) for other in found)]
    wanted = (
        found[0],
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


def _beats(plan: Plan, other: Plan) -> bool:
    """Whether `plan` is no worse than `other` in risk, time and changes, and better in one."""
    mine, its = ((one.risk, one.speed, len(one.steps)) for one in (plan, other))
    return mine != its and all(own <= theirs for own, theirs in zip(mine, its))


_MUCH_SLOWER = 1.5
_SLOW = 1.4  # more than checkpointing costs


def _makes_pointless(plan: Plan, other: Plan) -> bool:
    """Whether nobody takes `other` who can have `plan`: that is better in all and much faster."""
    return _beats(plan, other) and other.speed > _MUCH_SLOWER * plan.speed


_HARDLY_FASTER = 0.95


def adds_nothing(plan: Plan, other: Plan) -> bool:
    """Whether `plan` is all of `other` and more, for no less risk and about the same time or a longer one."""
    more = _titles(plan.steps) > _titles(other.steps)
    return more and plan.risk >= other.risk and plan.speed >= _HARDLY_FASTER * other.speed


def candidates(
    run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS, limit: int = WANTED_PLANS
) -> tuple[Plan, ...]:
    """Single changes that lower the peak, cheapest first: what to offer where no card is known or nothing fits."""
    high = peak(before)
    if high is None:
        return ()
    search = PlanSearch(run._replace(readings=()), before, hooks)
    helpful: dict[str, Plan] = {}
    for step in search.steps(()):
        plan = search.plan((step,))
        after = peak(plan.estimate)
        if after is not None and high - after > WORTHWHILE * high and search.accepts(plan.run, plan.estimate):
            best = helpful.get(step.group)
            if best is None or (plan.cost, -(high - after)) < (best.cost, 0):
                helpful[step.group] = plan
    return tuple(sorted(helpful.values(), key=in_order)[:limit])


class PlanSearch:
    """The search for one run. It remembers runs and estimates of combinations, and which changes can be written."""

    def __init__(self, run: Run, before: Estimate, hooks: SearchHooks = NO_HOOKS) -> None:
        self.run = run
        self.start = Plan((), run, before)
        self._hooks = hooks
        self._unless_over = estimate_unless_over if hooks.estimate is closed_form else hooks.estimate
        self._host = run.hardware.host_bytes or MOST_HOST_BYTES
        self._model = model_of(before)
        self._estimates: dict[frozenset[str], Estimate] = {frozenset(): before}
        self._runs: dict[frozenset[str], Run] = {frozenset(): run}
        self._steps: dict[frozenset[str], Steps] = {}
        self._moves: dict[frozenset[str], Steps] = {}
        self._can_write: dict[tuple[str, ...], bool] = {}  # by title; those that differ in degree alone, by fields
        self._prices: dict[str, Cost] = {}
        self._too_large: list[Mapping[str, str]] = []  # titles of changes that were not enough, by group
        self._enough: list[Mapping[str, str]] = []  # of those that were
        self._strengths: dict[str, int] = {}  # of changes within their group, by title: the weakest has 0

    def plan(self, chosen: Steps) -> Plan:
        """The run after these changes, with its estimate and price."""
        if not chosen:
            return self.start
        changed, estimate = self.changed(chosen), self.estimate(chosen)
        fields = {*FIELDS, *(name for step in chosen for name in step.changes)}
        price = between(self.run, changed, (self._model, model_of(estimate)), fields)
        return Plan(chosen, changed, estimate, price)

    def estimate(self, chosen: Steps) -> Estimate:
        """The estimate of the run after these changes."""
        key = _titles(chosen)
        if key not in self._estimates:
            self._estimates[key] = self._hooks.estimate(self.changed(chosen))
        return self._estimates[key]

    def changed(self, chosen: Steps) -> Run:
        """The run after these changes."""
        key = _titles(chosen)
        if key not in self._runs:
            values = {name: value for step in chosen for name, value in step.changes.items()}
            self._runs[key] = consistent(replace(self.run, values), self.run)
        return self._runs[key]

    def steps(self, chosen: Steps) -> Steps:
        """The changes that can be tried after `chosen` and that the format can write, in the order of their moves."""
        key = _titles(chosen)
        if key not in self._steps:
            changed = self.changed(chosen)
            self._steps[key] = tuple(
                self._priced(changed, step) for step in self._proposed(chosen) if self._allows(chosen, step)
            )
            for _, group in groupby(sorted(self._steps[key], key=_group), _group):
                for strength, step in enumerate(group):
                    self._strengths.setdefault(step.title, strength)
        return self._steps[key]

    def _allows(self, chosen: Steps, step: ProposedChange) -> bool:
        if step.title in self._hooks.banned:
            return False
        if self._hooks.express is None:
            return True
        key = tuple(step.changes) if step.group in GRADED_GROUPS else (step.title,)
        if key not in self._can_write:
            changes = {name: value for one in (*chosen, step) for name, value in one.changes.items()}
            self._can_write[key] = self._hooks.express(self.run, changes) is not None
        return self._can_write[key]

    def _priced(self, run: Run, step: ProposedChange) -> ProposedChange:
        """The change with what it costs beside those that it was first seen with."""
        if step.title not in self._prices:
            changed = replace(run, step.changes)
            models = (self._model, _trained(self._model, run, changed))
            self._prices[step.title] = between(run, changed, models, step.changes)
        return step._replace(price=self._prices[step.title])

    def fitting(self, chosen: Steps) -> Plan | None:
        """The plan of these changes where the run fits with them."""
        return self.plan(chosen) if self._fits_with(chosen) else None

    def is_enough(self, chosen: Steps) -> bool:
        """Whether the run fits with these changes. More or stronger changes than some that were enough are not
        estimated."""
        by_group = {step.group: step.title for step in chosen}
        return any(self._is_no_more(few, by_group) for few in self._enough) or self._fits_with(chosen)

    def _fits_with(self, chosen: Steps) -> bool:
        """Whether the run fits with these changes. Fewer or weaker changes than some that were not enough are not
        estimated, and those that are not enough only until that is sure."""
        by_group = {step.group: step.title for step in chosen}
        if any(self._is_no_more(by_group, other) for other in self._too_large):
            return False
        estimate = self._estimate_unless_over(chosen)
        if estimate is not None and self._is_fit(self.changed(chosen), estimate):
            self._enough.append(by_group)
            return True
        if estimate is None or (estimate.device_high_bytes or 0) > estimate.budget_bytes:
            self._too_large.append(by_group)
        return False

    def _estimate_unless_over(self, chosen: Steps) -> Estimate | None:
        """The estimate of the run after these changes; None where it is sure before its end that they are not
        enough."""
        key = _titles(chosen)
        known = self._estimates.get(key)
        if known is None:
            known = self._unless_over(self.changed(chosen))
            if known is not None:
                self._estimates[key] = known
        return known

    def _is_no_more(self, few: Mapping[str, str], many: Mapping[str, str]) -> bool:
        """Whether a run with `few` needs at least what one with `many` needs (titles of changes by group): `many` has
        each of its changes or a stronger one, and beyond them none that may raise a peak."""
        if not all(group in many and self._is_as_strong(many[group], few[group], group) for group in few):
            return False
        return not any(group in many and group not in few for group in (*STRUCTURE, WHOLE_BATCH))

    def _is_as_strong(self, title: str, other: str, group: str) -> bool:
        if title == other:
            return True
        return group in GRADED_GROUPS and self._strengths.get(title, 0) > self._strengths.get(
            other, len(self._strengths)
        )

    def fits(self, plan: Plan) -> bool:
        return self._is_fit(plan.run, plan.estimate)

    def _is_fit(self, run: Run, estimate: Estimate) -> bool:
        high = estimate.device_high_bytes
        enough = high is not None and high + self._hooks.margin <= estimate.budget_bytes
        return enough and estimate.verdict == "fits" and self.accepts(run, estimate)

    def accepts(self, run: Run, estimate: Estimate) -> bool:
        """Whether a host can hold what the run keeps there, and nobody objects to it."""
        if (estimate.host_bytes or 0) > max(self._host, self.start.estimate.host_bytes or 0):
            return False
        return self._hooks.accept is None or self._hooks.accept(run)

    def possible(self, chosen: Steps) -> Steps:
        """`chosen` less the changes that are only there beside others: checkpoints in host memory want checkpoints."""
        first = _titles(self.steps(()))
        for step in chosen:
            others = tuple(other for other in chosen if other is not step)
            if step.title not in first and all(step.title != one.title for one in self._proposed(others)):
                return self.possible(others)
        return chosen

    def _proposed(self, chosen: Steps) -> Steps:
        """The changes that the moves propose after `chosen`, whether or not they can be written."""
        key = _titles(chosen)
        if key not in self._moves:
            self._moves[key] = steps(self.changed(chosen))
        return self._moves[key]


def _group(step: ProposedChange) -> str:
    return step.group


def _titles(chosen: Iterable[ProposedChange]) -> frozenset[str]:
    return frozenset(step.title for step in chosen)


def _trained(model: ParameterCounts, before: Run, after: Run) -> ParameterCounts:
    """About how many parameters train after a change of the method, before anything was counted."""
    if before.method.kind == after.method.kind:
        return model
    share = {"lora": 100, "freeze": 4}.get(after.method.kind, 1)
    return model._replace(trainable=model.parameters // share)


def _plan_of_tier(search: PlanSearch, quality: str, order: Order, without: str = "") -> Plan | None:
    """The cheapest plan whose changes all lie within a tier of risk; None where there is none.

    What moves weights or states to the host is asked for last, and beside a plan without it only where that is slow.
    """
    on_card = _plan_without(search, quality, order, without, host=False)
    if on_card is not None and on_card.speed <= _MUCH_SLOWER:
        return on_card
    for also in ("", *_MAY_COST_MEMORY):
        plan = _plan_without(search, quality, order, without, also)
        if plan is not None:
            return plan if on_card is None else min(on_card, plan, key=in_order if order is risk_first else _by_time)
    return on_card or _plan_of_whole_batch(search, quality, order, without)


def _plan_of_whole_batch(search: PlanSearch, quality: str, order: Order, without: str) -> Plan | None:
    """A plan with the whole batch at once in place of smaller micro batches, where nothing else keeps the result."""
    possible = quality == QUALITIES[0] and any(step.group == WHOLE_BATCH for step in search.steps(()))
    return _plan_without(search, quality, order, without, whole_batch=True) if possible else None


def _plan_without(
    search: PlanSearch, quality: str, order: Order, *without: str, host: bool = True, whole_batch: bool = False
) -> Plan | None:
    """The cheapest plan of a tier without some groups, or without sharding that needs the host."""
    changes = _dearest_first(strongest(search, quality, without, host, whole_batch), order)
    if not _are_enough(search, changes):
        return None
    if order is risk_first:
        changes = _dearest_first(_least_of_the_risky(search, changes), order)
    plan = _without_unneeded(search, changes)
    return None if plan is None else _with_weaker(search, plan, quality, order, host)


def _least_of_the_risky(search: PlanSearch, changes: Steps) -> Steps:
    """`changes` with each graded one that is a high risk in the weakest degree that is enough beside all others: a
    quarter of the data lost for want of a free change is no plan."""
    for step in changes:
        if step.group not in GRADED_GROUPS or step.price.quality != QUALITIES[-1]:
            continue
        others = tuple(other for other in changes if other is not step)
        weaker = [one for one in search.steps(others) if one.group == step.group]
        weaker = weaker[: next((at for at, one in enumerate(weaker) if one.title == step.title), 0)]
        at = bisect_left(weaker, True, key=lambda one: search.is_enough(search.possible((*others, one))))
        changes = (*others, weaker[at]) if at < len(weaker) else changes
    return changes


def _dearest_first(changes: Steps, order: Order) -> Steps:
    return tuple(sorted(changes, key=lambda step: order(about(step)), reverse=True))


def _are_enough(search: PlanSearch, changes: Steps) -> bool:
    """Whether the run fits with all of `changes`. Where it fits with the cheaper half of them, it fits with all: that
    half is estimated anyway when unneeded changes are dropped."""
    if not changes:
        return False
    return search.is_enough(search.possible(changes[len(changes) // 2 :])) or search.is_enough(changes)


# Groups whose strongest change may raise a peak: ZeRO-3 loads quantised weights before it shares them, and 4 bits are
# not for every engine.
_MAY_COST_MEMORY = ("zero", "method")


def strongest(
    search: PlanSearch, quality: str, without: tuple[str, ...] = (), host: bool = True, whole_batch: bool = False
) -> Steps:
    """The strongest change of every group but those of `without`: first of those that decide which others there are,
    then of all. `host`: whether weights and states may go to the host. `whole_batch`: whether the micro batch becomes
    the whole batch, or smaller."""
    chosen: Steps = ()
    for number in range(_ROUNDS):
        used = {*without, "batch" if whole_batch else WHOLE_BATCH, *(step.group for step in chosen)}
        found: dict[str, ProposedChange] = {}
        for step in search.steps(chosen):
            if not host and _shards_on_host(step):
                continue
            if step.group not in used and _is_within(step, quality) and (number or step.group in STRUCTURE):
                found[step.group] = step  # the last of a group is the strongest
        if not found and number:
            break
        chosen = (*chosen, *found.values())
    return chosen


def _without_unneeded(search: PlanSearch, changes: Steps) -> Plan | None:
    """The plan without those of `changes`, the dearest first, that it does not need."""
    kept: Steps = ()
    left = changes
    while left:
        dropped = _droppable(search, kept, left)
        kept, left = (*kept, *left[dropped : dropped + 1]), left[dropped + 1 :]
    return search.fitting(search.possible(kept)) or search.fitting(changes)


def _droppable(search: PlanSearch, kept: Steps, left: Steps) -> int:
    """How many of `left`, from the first on, can go at once, so that the run with `kept` and the others fits.

    Most often one change is all that is needed, so beside some that are kept all are tried first.
    """

    def is_enough(dropped: int) -> bool:
        return search.is_enough(search.possible((*kept, *left[dropped:])))

    if kept and is_enough(len(left)):
        return len(left)
    low, high = 0, len(left) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if is_enough(middle) else (low, middle - 1)
    return low


def _with_weaker(search: PlanSearch, plan: Plan, quality: str, order: Order, host: bool) -> Plan:
    """The plan with each change replaced by the cheapest of its group with which the run still fits."""
    for step in plan.steps:
        others = tuple(other for other in plan.steps if other is not step)
        same = (one for one in search.steps(others) if one.group == step.group and _is_within(one, quality))
        group = [one for one in same if host or not _shards_on_host(one)]
        found = _first_that_fits(search, plan, step, _cheaper(group, step, order))
        if found is not None:
            plan = found
    return plan


def _cheaper(group: list[ProposedChange], step: ProposedChange, order: Order) -> list[ProposedChange]:
    """The changes of a group that cost less than `step`, or about as much and are weaker, the cheapest first; of a
    graded group all weaker ones."""
    weaker = group[: next((at for at, one in enumerate(group) if one.title == step.title), 0)]
    if step.group in GRADED_GROUPS:
        return weaker
    costs, own = {one.title: order(about(one)) for one in group}, order(about(step))
    cheaper = [one for one in group if costs[one.title] < own or (one in weaker and costs[one.title] == own)]
    return sorted(cheaper, key=lambda one: costs[one.title])


def _first_that_fits(search: PlanSearch, plan: Plan, step: ProposedChange, rivals: list[ProposedChange]) -> Plan | None:
    """The plan with the first of `rivals` that is enough in place of `step`. Those of a graded group stand from the
    weakest to the strongest, so that bisection finds it."""

    def tried(rival: ProposedChange) -> Plan | None:
        return search.fitting(tuple(rival if other is step else other for other in plan.steps))

    if step.group not in GRADED_GROUPS:
        return next(filter(None, map(tried, rivals[:_RIVALS_TRIED])), None)
    low, high, best = 0, len(rivals), None
    while low < high:
        middle = (low + high) // 2
        found = tried(rivals[middle])
        low, high, best = (low, middle, found) if found else (middle + 1, high, best)
    return best


def _single_changes(search: PlanSearch, quality: str) -> Iterator[Plan]:
    """Plans of one change: of each group the cheapest that is enough alone."""
    groups: dict[str, list[ProposedChange]] = {}
    for step in search.steps(()):
        if _is_within(step, quality):
            groups.setdefault(step.group, []).append(step)
    for options in groups.values():
        plan = search.fitting((options[-1],))
        if plan is not None:
            yield _first_that_fits(search, plan, options[-1], _cheaper(options, options[-1], risk_first)) or plan


def _shards_on_host(step: ProposedChange) -> bool:
    return step.group in STRUCTURE and needs_host(step)


def _is_within(step: ProposedChange, quality: str) -> bool:
    return QUALITIES.index(step.price.quality) <= QUALITIES.index(quality)


def as_fix(plan: Plan, before: Estimate, edits: tuple[Edit, ...] = ()) -> Fix:
    """The plan as a fix of a finding."""
    return Fix(
        title="; ".join(step.title for step in plan.steps),
        edits=edits,
        changes=plan.changes,
        safe=all(step.safe for step in plan.steps),
        speed=plan.speed,
        quality=plan.price.quality,
        before=before.on_card,
        after=plan.estimate.on_card,
        verdict_after=plan.estimate.verdict if before.budget_bytes else "",
        note="; ".join(dict.fromkeys((*(step.note for step in plan.steps if step.note), *_host_note(plan, before)))),
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
    high = min(low * 2, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _fits(run, field, middle, hooks) else (low, middle)
    return low


def _fits(run: Run, field: str, value: int, hooks: SearchHooks) -> bool:
    return hooks.estimate(replace(run, {field: value})).verdict == "fits"
