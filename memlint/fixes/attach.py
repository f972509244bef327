"""Attaches fixes to findings: plans to those of rules with `fix: plan`, patches to the fixes that other rules define.

Every fix is written to the files in memory, read back, and estimated from there: that figure is shown. A fix that
cannot be written, or that the framework would refuse, says why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import memlint.fixes.costs as costs
import memlint.fixes.goals as goals
import memlint.fixes.moves.hardware as hardware_advice
import memlint.fixes.planner as planner
import memlint.fixes.proposed_change as proposals
from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Fix
from memlint.fixes.attempt import Attempt, attempt, check_finding
from memlint.fixes.laws import identity
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Judged, Reanalyse
from memlint.ruleset.found import Found
from memlint.run import Run, get, replace

Estimator = Callable[[Run], Estimate]
MAX_PLANS = 3
_SEARCHES = 3  # a plan that fails when it is written is replaced by that of another search
_NO_KEY = "not written: no key of these files says it"


class WrittenPlan(NamedTuple):
    """A plan with the edits that write it, and the analysis of the edited files."""

    plan: planner.Plan
    tried: Attempt


class PlanOptions(NamedTuple):
    """What can be offered for one run: plans that fit, the least risky first; where none does, changes that help; and
    what no edit can do: a plan that somebody has to write by hand, hardware that fits."""

    options: tuple[WrittenPlan, ...] = ()
    advice: tuple[Fix, ...] = ()


class Failure(NamedTuple):
    """Why a plan is not offered as it was found, and what another search has to leave out or to spare.

    `unplaced`: the plan, where memlint cannot place one of its edits, with the reason in `reason`.
    """

    banned: frozenset[str] = frozenset()
    margin: int = 0
    unplaced: planner.Plan | None = None
    reason: str = ""


def with_plans(
    analysis: Analysis,
    estimator: Estimator,
    reanalyse: Reanalyse,
    judged: Judged | None = None,
    first_alone: bool = False,
) -> tuple[Finding, ...]:
    """The analysis' findings; those of rules with `fix: plan` carry plans, those with edits carry patches. `judged`:
    what plans are judged by, where the analysis has fewer rules. `first_alone`: each finding has its first fix alone;
    the others are not tried."""
    judge = judged or Judged(analysis, reanalyse)

    @cache
    def planned(run: int, first_alone: bool) -> PlanOptions:
        return options(judge.analysis, run, estimator, judge.reanalyse, first_alone=first_alone)

    done = []
    for found in analysis.found:
        fixes: Iterable[Fix]
        if found.plan and found.run >= 0:
            fixes = _fixes(judge.analysis, found, planned(found.run, True)) if first_alone else ()
            fixes = fixes or _fixes(judge.analysis, found, planned(found.run, False))
        else:
            fixes = _patched(analysis, found, reanalyse)
        finding = found.finding._replace(fixes=tuple(islice(fixes, 1 if first_alone else None)))
        done.append(_none_safe(finding) if analysis.is_unjudged else finding)
    return tuple(done)


def _none_safe(finding: Finding) -> Finding:
    return finding._replace(fixes=tuple(fix._replace(safe=False) for fix in finding.fixes))


def options(
    analysis: Analysis,
    index: int,
    estimator: Estimator,
    reanalyse: Reanalyse,
    hooks: planner.SearchHooks | None = None,
    first_alone: bool = False,
) -> PlanOptions:
    """Plans for one run of the analysis, each written in memory, read back and estimated from what the files say.

    `hooks`: narrows the search further than by what the format can write. `first_alone`: where a plan fits, the first
    of them and nothing else.
    """
    run, before = analysis.runs[index], analysis.estimates[index]
    hooks = hooks or planner.SearchHooks(estimator, edit_writer(analysis))
    over = before.budget_bytes and before.verdict not in ("fits", "unknown")
    first = _first(analysis, index, hooks, reanalyse) if first_alone else None
    if first is not None:
        return PlanOptions((first,))
    fitting, failures = _fitting(analysis, index, hooks, reanalyse)
    if fitting and first_alone:
        return PlanOptions(fitting[:1])
    asked = not any(_is_good_enough(option.plan) for option in fitting)
    hardware = hardware_advice.advice(run, before, estimator, edit_writer(analysis), asked) if over else ()
    if over and run.purpose == "train" and not any(option.plan.risk == 0 for option in fitting):
        by_hand = tuple(_by_hand(before, failures, bool(fitting)))
        elsewhere = () if any(fix.quality == "none" for fix in by_hand) else _elsewhere(run, before, hooks)
        hardware = (*by_hand, *elsewhere, *hardware)
    if fitting:
        return PlanOptions(fitting, hardware)
    helpful = planner.candidates(run, before, hooks, MAX_PLANS)
    read_back = (written(analysis, index, plan, reanalyse) for plan in helpful)
    return PlanOptions(
        tuple(one for one in read_back if isinstance(one, WrittenPlan) and _helps(one, before)), hardware
    )


_ABOUT_AS_FAST = 1.1
_MOST_CARDS_TO_GIVE_UP = 4  # who has a node of eight rents another card before a step takes eight times as long


def _is_good_enough(plan: planner.Plan) -> bool:
    """Whether nobody rents more cards who can have the plan: the same result in about the same time."""
    return plan.risk == 0 and plan.speed <= _ABOUT_AS_FAST


def _by_hand(before: Estimate, failures: Iterable[Failure], has_plans: bool) -> Iterator[Fix]:
    """The first plan that memlint cannot write, as advice with the reason: one without a risk, or the only one."""
    for failure in failures:
        if failure.unplaced is not None and (failure.unplaced.risk == 0 or not has_plans):
            yield _noted(planner.as_fix(failure.unplaced, before), f"not written: {failure.reason}")._replace(
                safe=False
            )
            return


def _elsewhere(run: Run, before: Estimate, hooks: planner.SearchHooks) -> Iterator[Fix]:
    """Advice where no plan is without a risk as the run is started: with segments of the allocator that grow, and on
    one of several cards."""
    grows = hardware_advice.can_grow_segments(run)
    yield from (tuple(_with_segments(run, before, hooks)) if grows else ()) or _one_card(run, before, hooks)


def _with_segments(run: Run, before: Estimate, hooks: planner.SearchHooks) -> Iterator[Fix]:
    growing = replace(run, {"stack.expandable_segments": True})
    plan = planner.riskless(growing, hooks.estimate(growing), hooks)
    if plan is not None and plan.steps:
        fix = hardware_advice.segments(before, plan.estimate, tuple(step.title for step in plan.steps))
        yield _noted(fix, planner.as_fix(plan, before).note)


def _one_card(run: Run, before: Estimate, hooks: planner.SearchHooks) -> Iterator[Fix]:
    """Advice for several cards on which the run fits at a risk alone, where it fits on one of them without."""
    world = run.parallelism.world_size
    plan = goals.on_one_card(run, hooks) if isinstance(world, int) and world <= _MOST_CARDS_TO_GIVE_UP else None
    if plan is not None and isinstance(world, int):
        fix = hardware_advice.one_card(before, plan.estimate, world, tuple(step.title for step in plan.steps))
        yield _noted(fix, planner.as_fix(plan, before).note)


def _first(analysis: Analysis, index: int, hooks: planner.SearchHooks, reanalyse: Reanalyse) -> WrittenPlan | None:
    """The first of `_fitting`, where it is the planner's first plan: others are not searched for."""
    for plan in planner.plans(analysis.runs[index], analysis.estimates[index], hooks, limit=1):
        option = _with_needed_changes(analysis, index, plan, reanalyse, hooks)
        return option if isinstance(option, WrittenPlan) else None
    return None


def _fitting(
    analysis: Analysis, index: int, hooks: planner.SearchHooks, reanalyse: Reanalyse
) -> tuple[tuple[WrittenPlan, ...], tuple[Failure, ...]]:
    """At most MAX_PLANS plans that fit as written, in the planner's order, and those that failed. The planner's first
    plan stays the first where it can be written."""
    run, before = analysis.runs[index], analysis.estimates[index]
    first: WrittenPlan | None = None
    done: dict[planner.Kind, WrittenPlan] = {}
    failed: list[Failure] = []
    for _ in range(_SEARCHES):
        failures = []
        for plan in planner.plans(run, before, hooks, MAX_PLANS):
            if planner.kind(plan) in done:
                continue
            option = _with_needed_changes(analysis, index, plan, reanalyse, hooks)
            if isinstance(option, Failure):
                failures.append(option)
                continue
            if not (done or failed or failures):
                first = option
            done.setdefault(planner.kind(option.plan), option)
        failed += failures
        if not failures or len(done) >= MAX_PLANS:
            break
        hooks = hooks._replace(
            banned=hooks.banned.union(*(one.banned for one in failures)),
            margin=max(hooks.margin, *(one.margin for one in failures)),
        )
    plans = [one.plan for one in done.values()]
    kept = (
        one
        for one in done.values()
        if one is first or not any(planner.adds_nothing(one.plan, other) for other in plans)
    )
    ordered = sorted(kept, key=lambda one: (one is not first, planner.in_order(one.plan)))
    return tuple(ordered[:MAX_PLANS]), tuple(failed)


def _with_needed_changes(
    analysis: Analysis, index: int, plan: planner.Plan, reanalyse: Reanalyse, hooks: planner.SearchHooks
) -> WrittenPlan | Failure:
    """The plan as it is written, without changes that it turns out not to need, or why it is not offered."""
    option = written(analysis, index, plan, reanalyse)
    if isinstance(option, Failure):
        return option
    return _without_unneeded_changes(analysis, index, option, plan, reanalyse, hooks)


def written(analysis: Analysis, index: int, plan: planner.Plan, reanalyse: Reanalyse) -> WrittenPlan | Failure:
    """The plan with the estimate of the written files, or why it is not offered."""
    tried = attempt(analysis, _edits(analysis, analysis.runs[index], plan.changes) or (), None, reanalyse)
    if not tried.holds or tried.after is None or len(tried.after.estimates) <= index:
        culprits = _culprits(analysis, index, plan, reanalyse, lambda one: not one.holds)
        return Failure(culprits, unplaced=plan if tried.refused else None, reason=tried.refused)
    bad = _objections(analysis, index, tried)
    if bad:
        return Failure(
            _culprits(analysis, index, plan, reanalyse, lambda one: bool(bad & _objections(analysis, index, one)))
        )
    estimate = tried.after.estimates[index]
    if plan.estimate.verdict == "fits" != estimate.verdict:
        return _shortfall(plan, tried.after.runs[index], estimate)
    return WrittenPlan(plan._replace(estimate=estimate), tried)


def _objections(analysis: Analysis, index: int, tried: Attempt) -> frozenset[str]:
    """Rules that speak against the written plan: new errors, and what law 6 says of the finding about memory."""
    if tried.after is None:
        return frozenset()
    objections = set(new_errors(analysis, tried.after))
    main = main_finding(analysis, index)
    if main is not None and tried.after.estimates[index].verdict == "fits":
        refused = check_finding(tried, analysis, main.finding).refused
        objections |= {refused} if refused else set()
    return frozenset(objections)


def main_finding(analysis: Analysis, index: int) -> Found | None:
    """The finding that the plans of a run solve: the first of a rule with `fix: plan`."""
    return next((found for found in analysis.found if found.plan and found.run == index), None)


def _culprits(
    analysis: Analysis, index: int, plan: planner.Plan, reanalyse: Reanalyse, fails: Callable[[Attempt], bool]
) -> frozenset[str]:
    """Titles of the changes that fail alone; where none does, of the dearest: without it another plan is found."""
    alone = []
    for step in plan.steps:
        edits = _edits(analysis, analysis.runs[index], step.changes)
        if edits and fails(attempt(analysis, edits, None, reanalyse)):
            alone.append(step.title)
    return frozenset(alone or [max(plan.steps, key=proposals.risk_first).title])


def _shortfall(plan: planner.Plan, run: Run, estimate: Estimate) -> Failure:
    """What a plan lacks that does not fit as written: changes that the files take without an effect, or bytes."""
    idle = (
        step.title for step in plan.steps if not any(get(run, name) == get(plan.run, name) for name in step.changes)
    )
    more = (planner.peak(estimate) or 0) - (planner.peak(plan.estimate) or 0)
    return Failure(frozenset(idle), max(0, more))


def new_errors(before: Analysis, after: Analysis) -> tuple[str, ...]:
    """Rules of which `after` has more errors than `before`, without those about memory, which the estimate covers."""
    counts = [
        Counter(one.finding.rule for one in found.found if one.finding.severity == "error" and not one.plan)
        for found in (before, after)
    ]
    return tuple((counts[1] - counts[0]).elements())


def _without_unneeded_changes(
    analysis: Analysis,
    index: int,
    option: WrittenPlan,
    planned: planner.Plan,
    reanalyse: Reanalyse,
    hooks: planner.SearchHooks,
) -> WrittenPlan:
    """The plan without changes that it turns out not to need, the dearest tried first: the written files may need less
    memory than was planned."""
    if not _needs_less(option.plan.estimate, planned.estimate):
        return option
    search = planner.PlanSearch(analysis.runs[index], analysis.estimates[index], hooks)
    for step in sorted(option.plan.steps, key=proposals.risk_first, reverse=True):
        fewer = tuple(other for other in option.plan.steps if other is not step)
        if not fewer or not _fits_without(analysis.runs[index], step, option, index, hooks):
            continue
        rest = written(analysis, index, search.plan(fewer), reanalyse)
        if isinstance(rest, WrittenPlan) and rest.plan.estimate.verdict == "fits":
            option = rest
    return option


def _needs_less(estimate: Estimate, planned: Estimate) -> bool:
    """Whether a figure that a search goes by is lower: bytes of the card, on a card with room for them, and of the
    host."""
    pairs = (
        (estimate.device_bytes, planned.device_bytes),
        (estimate.device_unclamped_high_bytes, planned.device_unclamped_high_bytes),
        (estimate.host_bytes, planned.host_bytes),
    )
    return any((now or 0) < (then or 0) for now, then in pairs)


def _fits_without(
    run: Run, step: proposals.ProposedChange, option: WrittenPlan, index: int, hooks: planner.SearchHooks
) -> bool:
    """Whether the run of the written files fits with one change taken back, as far as can be said before files are
    written without it."""
    if option.tried.after is None:
        return False
    taken_back = {name: get(run, name) for name in step.changes}
    return hooks.estimate(replace(option.tried.after.runs[index], taken_back)).verdict == "fits"


def edit_writer(analysis: Analysis) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """A function that gives the edits for a change, in the format of the analysis; None where it cannot be written."""
    return lambda run, changes: _edits(analysis, run, changes)


def _edits(analysis: Analysis, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    if analysis.format is None or analysis.parsed is None:
        return None
    return analysis.format.edits(analysis.parsed, run, changes)


def _fixes(analysis: Analysis, found: Found, known: PlanOptions) -> tuple[Fix, ...]:
    """The run's plans, as `memlint plan` numbers them, and hardware. Another finding than that about memory keeps the
    plans that solve it without a new one."""
    main = main_finding(analysis, found.run)
    fixes = []
    for plan, tried in known.options:
        is_main = main is not None and identity(main.finding) == identity(found.finding)
        if is_main or plan.estimate.verdict != "fits" or check_finding(tried, analysis, found.finding).holds:
            fixes.append(fix_of(analysis, found.run, WrittenPlan(plan, tried)))
    return tuple(sorted((*fixes, *known.advice), key=_falls_short))


def _falls_short(fix: Fix) -> bool:
    """Whether the run does not fit with it: that comes after what nobody can write for the reader, and fits."""
    return fix.verdict_after not in ("fits", "")


def fix_of(analysis: Analysis, index: int, option: WrittenPlan) -> Fix:
    """A written plan as a fix with its patches."""
    fix = planner.as_fix(option.plan, analysis.estimates[index], option.tried.edits)
    return fix._replace(patches=option.tried.patches, partial=option.plan.estimate.verdict != "fits")


_PART_WORTH_TELLING = 0.1


def _helps(option: WrittenPlan, before: Estimate) -> bool:
    """Whether a change that is not enough is worth offering: it saves a good part of what is over the card, and more
    than noise of the figure that is shown and of the upper end that the verdict goes by."""
    after = option.plan.estimate
    if planner.excess(after) > (1 - _PART_WORTH_TELLING) * planner.excess(before):
        return False
    figures = ((planner.peak(before), planner.peak(after)), (before.device_bytes, after.device_bytes))
    return all(old is not None and new is not None and old - new > planner.WORTHWHILE * old for old, new in figures)


def _patched(analysis: Analysis, found: Found, reanalyse: Reanalyse) -> Iterator[Fix]:
    """The finding's fixes with what they do to the files; a fix that is not written says why."""
    tried = (_as_written(analysis, found, fix, reanalyse) for fix in found.finding.fixes)
    return (fix for fix in tried if fix is not None)


def _as_written(analysis: Analysis, found: Found, fix: Fix, reanalyse: Reanalyse) -> Fix | None:
    """The fix with its patches, and with price and figures of the changed files. None where it makes the run need more
    than the card has."""
    if not fix.edits:
        return _noted(fix, _NO_KEY) if fix.changes else fix
    tried = attempt(analysis, fix.edits, found.finding, reanalyse)
    if not tried.holds:
        reason = tried.refused or "memlint cannot place it safely"
        return _noted(fix._replace(edits=(), safe=False), f"not written: {reason}")
    fix = fix._replace(patches=tried.patches)
    if found.run < 0 or tried.after is None or len(tried.after.estimates) <= found.run:
        return fix
    fix = _priced(fix, analysis, tried.after, found.run)
    if fix.changes:
        return _re_estimated(fix, analysis, tried.after, found.run)
    old, new = analysis.estimates[found.run], tried.after.estimates[found.run]
    return fix if old.on_card == new.on_card else _with_figures(fix, old, new)


def _noted(fix: Fix, more: str) -> Fix:
    return fix._replace(note="; ".join(filter(None, (fix.note, more))))


def _re_estimated(fix: Fix, analysis: Analysis, after: Analysis, index: int) -> Fix | None:
    old, new = analysis.estimates[index], after.estimates[index]
    high, low = planner.peak(old), planner.peak(new)
    worse = high is not None and low is not None and low > high
    if new.verdict == "out_of_memory" and (old.verdict != "out_of_memory" or worse):
        return None
    return _with_figures(fix, old, new)


def _with_figures(fix: Fix, old: Estimate, new: Estimate) -> Fix:
    known = planner.peak(old) is not None and planner.peak(new) is not None
    return fix._replace(before=old.on_card, after=new.on_card, verdict_after=new.verdict if known else "")


def _priced(fix: Fix, analysis: Analysis, after: Analysis, index: int) -> Fix:
    """The fix with the table's price, where the table knows of one; a rule may know of more risk."""
    models = (costs.model_of(analysis.estimates[index]), costs.model_of(after.estimates[index]))
    price = costs.between(analysis.runs[index], after.runs[index], models)
    quality = max(fix.quality, price.quality, key=costs.QUALITIES.index)
    return fix._replace(speed=price.speed if price.speed != 1 else fix.speed, quality=quality)
