"""Plans as their files say them: every plan is written in memory, read back, estimated from there, and judged.

A plan is not offered where memlint cannot place one of its edits, where the changed files have a new error, or where
they need more memory than was planned. What fails says what another search has to leave out or to spare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import SEVERITIES, Edit, Fix
from memlint.fixes.attempt import Attempt, attempt, check_finding, have_places
from memlint.fixes.plan import Plan, as_fix, peak
from memlint.fixes.plan_search import Express, PlanSearch, SearchHooks
from memlint.fixes.proposed_change import ProposedChange, risk_first
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.ruleset.found import Found
from memlint.run import Run, get, replace


class WrittenPlan(NamedTuple):
    """A plan with the edits that write it, and the analysis of the edited files."""

    plan: Plan
    tried: Attempt


class Failure(NamedTuple):
    """Why a plan is not offered as it was found, and what another search has to leave out or to spare.

    `unplaced`: the plan, where memlint cannot place one of its edits, with the reason in `reason`.
    """

    banned: frozenset[str] = frozenset()
    margin: int = 0
    unplaced: Plan | None = None
    reason: str = ""


def with_needed_changes(
    analysis: Analysis, index: int, plan: Plan, reanalyse: Reanalyse, hooks: SearchHooks
) -> WrittenPlan | Failure:
    """The plan as it is written, without changes that it turns out not to need, or why it is not offered."""
    option = written(analysis, index, plan, reanalyse)
    if isinstance(option, Failure):
        return option
    return _without_unneeded_changes(analysis, index, option, plan, reanalyse, hooks)


def written(analysis: Analysis, index: int, plan: Plan, reanalyse: Reanalyse) -> WrittenPlan | Failure:
    """The plan with the estimate of the written files, or why it is not offered."""
    edits = _edits(analysis, analysis.runs[index], plan.changes)
    if edits is None:
        culprits = _culprits(analysis, index, plan, reanalyse, lambda one: not one.holds)
        return Failure(culprits, unplaced=plan, reason="the files cannot say all of it together")
    tried = attempt(analysis, edits, None, reanalyse)
    if not tried.holds or tried.after is None or len(tried.after.estimates) <= index:
        culprits = _culprits(analysis, index, plan, reanalyse, lambda one: not one.holds)
        return Failure(culprits, unplaced=plan if tried.refused else None, reason=tried.refused)
    bad = _objections(analysis, index, tried)
    if bad:
        return Failure(
            _culprits(analysis, index, plan, reanalyse, lambda one: bool(bad & _objections(analysis, index, one)))
        )
    estimate = tried.after.estimates[index]
    if peak(estimate) is None and peak(plan.estimate) is not None:
        return Failure(_culprits(analysis, index, plan, reanalyse, lambda one: _has_no_figure(one, index)))
    if plan.estimate.verdict == "fits" != estimate.verdict:
        return _shortfall(plan, tried.after.runs[index], estimate)
    return WrittenPlan(plan._replace(estimate=estimate), tried)


def _has_no_figure(tried: Attempt, index: int) -> bool:
    """Whether nothing is known any more of what the run needs."""
    return tried.after is not None and peak(tried.after.estimates[index]) is None


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
    """The finding that the plans of a run solve: of those of rules with `fix: plan` the first of the most severe."""
    of_plans = (found for found in analysis.found if found.plan and found.run == index)
    return max(of_plans, key=lambda found: SEVERITIES.index(found.finding.severity), default=None)


def _culprits(
    analysis: Analysis, index: int, plan: Plan, reanalyse: Reanalyse, fails: Callable[[Attempt], bool]
) -> frozenset[str]:
    """Titles of the changes that fail alone; where none does, of the dearest: without it another plan is found."""
    alone = []
    for step in plan.steps:
        edits = _edits(analysis, analysis.runs[index], step.changes)
        if edits and fails(attempt(analysis, edits, None, reanalyse)):
            alone.append(step.title)
    return frozenset(alone or [max(plan.steps, key=risk_first).title])


def _shortfall(plan: Plan, run: Run, estimate: Estimate) -> Failure:
    """What a plan lacks that does not fit as written: changes that the files take without an effect, else bytes."""
    idle = frozenset(
        step.title for step in plan.steps if not any(get(run, name) == get(plan.run, name) for name in step.changes)
    )
    more = (peak(estimate) or 0) - (peak(plan.estimate) or 0)
    return Failure(idle, 0 if idle else max(0, more))


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
    planned: Plan,
    reanalyse: Reanalyse,
    hooks: SearchHooks,
) -> WrittenPlan:
    """The plan without changes that it turns out not to need, the dearest tried first: the written files may need less
    memory than was planned."""
    if not _needs_less(option.plan.estimate, planned.estimate):
        return option
    search = PlanSearch(analysis.runs[index], analysis.estimates[index], hooks)
    for step in sorted(option.plan.steps, key=risk_first, reverse=True):
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


def _fits_without(run: Run, step: ProposedChange, option: WrittenPlan, index: int, hooks: SearchHooks) -> bool:
    """Whether the run of the written files fits with one change taken back, as far as can be said before files are
    written without it."""
    if option.tried.after is None:
        return False
    taken_back = {name: get(run, name) for name in step.changes}
    return hooks.estimate(replace(option.tried.after.runs[index], taken_back)).verdict == "fits"


def edit_writer(analysis: Analysis) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """A function that gives the edits for a change, in the format of the analysis; None where it cannot be written."""
    return lambda run, changes: _edits(analysis, run, changes)


def placing_writer(analysis: Analysis, write: Express) -> Express:
    """The writer `write`, which gives None as well for edits that have no place in the files."""

    def placed(run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        edits = write(run, changes)
        return edits if edits is not None and have_places(analysis, edits) else None

    return placed


def _edits(analysis: Analysis, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    if analysis.format is None or analysis.parsed is None:
        return None
    return analysis.format.edits(analysis.parsed, run, changes)


def fix_of(analysis: Analysis, index: int, option: WrittenPlan) -> Fix:
    """A written plan as a fix with its patches."""
    fix = as_fix(option.plan, analysis.estimates[index], option.tried.edits)
    return fix._replace(patches=option.tried.patches, partial=option.plan.estimate.verdict != "fits")
