"""The cheapest plan within a tier of risk (none, low, medium, high). The search goes backwards:

1. Take the strongest change of every group that the tier allows. Where the run does not fit then, no plan of the tier
   does: every change lowers the peak or leaves it. Of groups for which that does not hold, it is tried without. (The
   cheaper half of the changes is estimated first: where it is enough, all are.)
2. Drop changes, the dearest first, as long as the run fits. As each change only helps, the longest run of changes that
   can be dropped at once is found by bisection.
3. Replace each change that is left by the cheapest of its group with which the run still fits.

What is dearest depends on what is wanted: the same training result, or short steps.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

from memlint.fixes.costs import QUALITIES
from memlint.fixes.moves.catalog import GRADED_GROUPS, STRUCTURE, WHOLE_BATCH
from memlint.fixes.plan import MUCH_SLOWER, Plan, Steps, by_time, in_order
from memlint.fixes.plan_search import PlanSearch
from memlint.fixes.proposed_change import ProposedChange, about, needs_host, risk_first, time_first

Order = Callable[[ProposedChange], Any]

_RIVALS_TRIED = 4  # other changes of a group that are tried in place of one
_ROUNDS = 4  # changes may open others: checkpointing opens checkpoints in host memory


def plan_of_tier(search: PlanSearch, quality: str, order: Order, without: str = "") -> Plan | None:
    """The cheapest plan whose changes all lie within a tier of risk; None where there is none.

    What moves weights or states to the host is asked for last, and beside a plan without it only where that is slow.
    """
    on_card = _plan_of(search, strongest(search, quality, (without,), host=False), quality, order, host=False)
    if on_card is not None and on_card.speed <= MUCH_SLOWER:
        return on_card
    every = strongest(search, quality, (without,))
    for also in ("", *_TRIED_WITHOUT):
        if also and all(step.group != also for step in every):
            continue  # the same changes again
        changes = strongest(search, quality, (without, also)) if also else every
        plan = _plan_of(search, changes, quality, order)
        if plan is not None:
            return plan if on_card is None else min(on_card, plan, key=in_order if order is risk_first else by_time)
    return on_card or _plan_of_whole_batch(search, quality, order, without)


def _plan_of_whole_batch(search: PlanSearch, quality: str, order: Order, without: str) -> Plan | None:
    """A plan with the whole batch at once in place of smaller micro batches, where nothing else keeps the result."""
    if quality != QUALITIES[0] or not search.steps_of(WHOLE_BATCH, ()):
        return None
    return _plan_of(search, strongest(search, quality, (without,), whole_batch=True), quality, order)


def _plan_of(search: PlanSearch, changes: Steps, quality: str, order: Order, host: bool = True) -> Plan | None:
    """The cheapest plan of a tier that some of `changes` or weaker ones make; None where all are not enough. `host`:
    whether sharding may need the host."""
    changes = _dearest_first(changes, order)
    if not _are_enough(search, changes):
        return None
    if order is risk_first:
        changes = _dearest_first(_least_of_the_risky(search, changes), order)
    plan = _without_unneeded(search, changes, order)
    if plan is None:
        return None
    plan = _with_weaker(search, plan, quality, order, host)
    other = _with_cheaper_dearest(search, changes, plan, quality, order, host)
    return plan if other is None else min(plan, other, key=in_order if order is risk_first else by_time)


_WORTH_ANOTHER_SEARCH = 1.05


def _with_cheaper_dearest(
    search: PlanSearch, changes: Steps, plan: Plan, quality: str, order: Order, host: bool
) -> Plan | None:
    """The plan with a cheaper change of its group in place of the plan's dearest one, beside others of `changes` that
    cost less: fused AdamW and half the micro batch are enough where paged states were enough alone."""
    dearest = max(plan.steps, key=lambda step: order(about(step)))
    if about(dearest).price.speed <= _WORTH_ANOTHER_SEARCH or dearest.group in GRADED_GROUPS:
        return None
    others = tuple(step for step in changes if step.group != dearest.group)
    same = (one for one in search.steps_of(dearest.group, others) if _is_within(one, quality))
    group = [one for one in same if host or not _shards_on_host(one)]
    for rival in _cheaper(group, dearest, order)[:_RIVALS_TRIED]:
        if search.is_enough(search.possible((*others, rival))):
            found = _without_unneeded(search, _dearest_first((*others, rival), order), order)
            return None if found is None else _with_weaker(search, found, quality, order, host)
    return None


def _least_of_the_risky(search: PlanSearch, changes: Steps) -> Steps:
    """`changes` with each graded one that is a high risk in the weakest degree that is enough beside all others: a
    quarter of the data lost for want of a free change is no plan."""
    for step in changes:
        if step.group not in GRADED_GROUPS or step.price.quality != QUALITIES[-1]:
            continue
        others = tuple(other for other in changes if other is not step)
        weaker = search.steps_of(step.group, others)
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


_BY_LENGTH = ("tokens",)  # how far these changes go depends on how long sequences are by then
# Groups whose strongest change may raise a peak, so that a tier is tried without it: ZeRO-3 and FSDP load quantised
# weights before they share them, and 4 bits are not for every engine.
_TRIED_WITHOUT = ("zero", "method", "quantization")


def strongest(
    search: PlanSearch, quality: str, without: tuple[str, ...] = (), host: bool = True, whole_batch: bool = False
) -> Steps:
    """The strongest change of every group but those of `without`: first of those that decide which others there are,
    then of all, and last of those that others let go further. `host`: whether weights and states may go to the host.
    `whole_batch`: whether the micro batch becomes the whole batch, or smaller."""
    chosen: Steps = ()
    for number in range(_ROUNDS):
        used = {*without, "batch" if whole_batch else WHOLE_BATCH, *(step.group for step in chosen)}
        found: dict[str, ProposedChange] = {}
        for step in reversed(search.priced(chosen)):  # the last of a group is the strongest
            if step.group in used or not _is_within(step, quality) or (not host and _shards_on_host(step)):
                continue
            opens = number > 1 or (step.group not in _BY_LENGTH if number else step.group in STRUCTURE)
            if opens and step.group not in found and search.can_write(chosen, step):
                found[step.group] = step
        if not found and number > 1:
            break
        chosen = (*chosen, *reversed(found.values()))
    return chosen


_WORTH_ITSELF = 0.75  # of a step's time: a change that leaves no more is kept by who asks for short steps


def _without_unneeded(search: PlanSearch, changes: Steps, order: Order) -> Plan | None:
    """The plan without those of `changes`, the dearest first, that it does not need. What makes steps much shorter at
    hardly a risk, such as half precision in place of float32, stays in a plan that is about time."""
    kept = tuple(step for step in changes if order is time_first and _is_worth_itself(step))
    left = tuple(step for step in changes if step not in kept)
    while left:
        dropped = _droppable(search, kept, left)
        kept, left = (*kept, *left[dropped : dropped + 1]), left[dropped + 1 :]
    return search.fitting(search.possible(kept)) or search.fitting(changes)


def _is_worth_itself(step: ProposedChange) -> bool:
    return step.group not in STRUCTURE and step.price.speed <= _WORTH_ITSELF and _is_within(step, "low")


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
        same = (one for one in search.steps_of(step.group, others) if _is_within(one, quality))
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


def single_changes(search: PlanSearch, quality: str) -> Iterator[Plan]:
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
