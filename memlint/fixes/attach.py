"""Attaches plans to findings of rules with `fix: plan`.

Each plan is written to the files in memory, read back and estimated from there before it is offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import memlint.fixes.moves.hardware as hardware_advice
import memlint.fixes.planner as planner
import memlint.fixes.proposed_change as proposals
from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Fix
from memlint.fixes.attempt import Attempt, Reanalyse, attempt, check_finding
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Found
from memlint.run import Run

Estimator = Callable[[Run], Estimate]
MAX_PLANS = 3
SLOW_PLAN = 1.9  # factor on the time of a step: a slower plan costs as many GPU hours as more cards would


class WrittenPlan(NamedTuple):
    """A plan with the edits that write it, and the analysis of the edited files."""

    plan: planner.Plan
    tried: Attempt


class PlanOptions(NamedTuple):
    """What can be offered for one run: plans that fit; where none does, changes that help, and hardware that fits."""

    options: tuple[WrittenPlan, ...] = ()
    advice: tuple[Fix, ...] = ()


def with_plans(analysis: Analysis, estimator: Estimator, reanalyse: Reanalyse) -> tuple[Finding, ...]:
    """The analysis' findings; those of rules with `fix: plan` carry plans, those with edits carry patches."""
    known: dict[int, PlanOptions] = {}
    done = []
    for found in analysis.found:
        if found.plan and found.run >= 0:
            if found.run not in known:
                known[found.run] = options(analysis, found.run, estimator, reanalyse)
            finding = found.finding._replace(fixes=_fixes(analysis, found, known[found.run]))
        else:
            finding = _patched(analysis, found.finding, reanalyse)
        done.append(_none_safe(finding) if analysis.is_unjudged else finding)
    return tuple(done)


def _none_safe(finding: Finding) -> Finding:
    return finding._replace(fixes=tuple(fix._replace(safe=False) for fix in finding.fixes))


def options(analysis: Analysis, index: int, estimator: Estimator, reanalyse: Reanalyse) -> PlanOptions:
    """Plans for one run of the analysis, each written in memory, read back and estimated from what the files say."""
    run, before = analysis.runs[index], analysis.estimates[index]
    search = planner.SearchHooks(estimator, edit_writer(analysis))
    fitting = tuple(
        _read_back(analysis, index, planner.plans(run, before, search, MAX_PLANS + 1), reanalyse, must_fit=True)
    )
    over = before.budget_bytes and before.verdict not in ("fits", "unknown")
    near = sum(option.plan.speed < SLOW_PLAN for option in fitting)
    hardware = (
        hardware_advice.advice(run, before, estimator, edit_writer(analysis)) if over and near < MAX_PLANS else ()
    )
    if fitting:
        kept = without_slowest(fitting) if hardware and len(fitting) >= MAX_PLANS else fitting
        return PlanOptions(kept, hardware[: max(0, MAX_PLANS - len(kept))])
    return PlanOptions(
        tuple(_read_back(analysis, index, planner.candidates(run, before, search, MAX_PLANS), reanalyse, False)),
        hardware,
    )


def without_slowest(fitting: tuple[WrittenPlan, ...]) -> tuple[WrittenPlan, ...]:
    """All but one of the plans, in their order: hardware advice takes the place of one that doubles the time."""
    kept = sorted(fitting, key=lambda option: option.plan.speed >= SLOW_PLAN)[: MAX_PLANS - 1]
    return tuple(option for option in fitting if option in kept)


def _read_back(
    analysis: Analysis, index: int, found: tuple[planner.Plan, ...], reanalyse: Reanalyse, must_fit: bool
) -> Iterator[WrittenPlan]:
    """The plans that can be written and still have their effect when the files are read back. Of plans that differ in
    degree alone (half the length, a quarter of it) the cheapest."""
    before = analysis.estimates[index]
    seen: set[frozenset[str]] = set()
    for plan in found:
        option = _written(analysis, index, plan, reanalyse)
        if option is None or not helps(option.plan.estimate, before, must_fit):
            continue
        if must_fit and option.plan.estimate != plan.estimate:
            option = _without_unneeded_changes(analysis, index, option, reanalyse)
        kind = frozenset(
            step.group if step.group in planner.GRADED_GROUPS else step.title for step in option.plan.steps
        )
        if must_fit and kind in seen:
            continue
        seen.add(kind)
        yield option


def _written(analysis: Analysis, index: int, plan: planner.Plan, reanalyse: Reanalyse) -> WrittenPlan | None:
    """The plan with the estimate of the written files. None where it cannot be written, or where the framework would
    refuse the result."""
    tried = attempt(analysis, _edits(analysis, analysis.runs[index], plan.changes) or (), None, reanalyse)
    if not tried.holds or tried.after is None or len(tried.after.estimates) <= index:
        return None
    if new_errors(analysis, tried.after):
        return None
    return WrittenPlan(plan._replace(estimate=tried.after.estimates[index]), tried)


def new_errors(before: Analysis, after: Analysis) -> tuple[str, ...]:
    """Rules of which `after` has more errors than `before`, without those about memory, which the estimate covers."""
    counts = [
        Counter(one.finding.rule for one in found.found if one.finding.severity == "error" and not one.plan)
        for found in (before, after)
    ]
    return tuple((counts[1] - counts[0]).elements())


def _without_unneeded_changes(analysis: Analysis, index: int, option: WrittenPlan, reanalyse: Reanalyse) -> WrittenPlan:
    """The plan without changes that it turns out not to need, the most expensive tried first: the written files may
    need less memory than was planned."""
    for step in sorted(option.plan.steps, key=proposals.cost, reverse=True):
        fewer = option.plan._replace(steps=tuple(other for other in option.plan.steps if other is not step))
        rest = _written(analysis, index, fewer, reanalyse) if fewer.steps else None
        if rest is not None and rest.plan.estimate.verdict == "fits":
            option = rest
    return option


def edit_writer(analysis: Analysis) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """A function that gives the edits for a change, in the format of the analysis; None where it cannot be written."""
    return lambda run, changes: _edits(analysis, run, changes)


def _edits(analysis: Analysis, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    if analysis.format is None or analysis.parsed is None:
        return None
    return analysis.format.edits(analysis.parsed, run, changes)


def _fixes(analysis: Analysis, found: Found, known: PlanOptions) -> tuple[Fix, ...]:
    """The plans that solve the finding without a new one; where none fits, changes that help, and hardware."""
    before = analysis.estimates[found.run]
    fixes = []
    for plan, tried in known.options:
        if plan.estimate.verdict != "fits" or check_finding(tried, analysis, found.finding).holds:
            fixes.append(planner.as_fix(plan, before, tried.edits)._replace(patches=tried.patches))
    return (*fixes[:MAX_PLANS], *known.advice)


def helps(after: Estimate, before: Estimate, must_fit: bool) -> bool:
    """Whether a change is worth offering: the run fits, or (where nothing does) it saves more than noise."""
    high, low = planner.peak(before), planner.peak(after)
    if high is None or low is None:
        return False
    return after.verdict == "fits" if must_fit else high - low > planner.WORTHWHILE * high


def _patched(analysis: Analysis, finding: Finding, reanalyse: Reanalyse) -> Finding:
    """The finding with the patches of its fixes; a fix that breaks a law is offered without them."""
    fixes = []
    for fix in finding.fixes:
        if fix.edits:
            tried = attempt(analysis, fix.edits, finding, reanalyse)
            fix = fix._replace(patches=tried.patches) if tried.holds else fix._replace(edits=(), safe=False)
        fixes.append(fix)
    return finding._replace(fixes=tuple(fixes))
