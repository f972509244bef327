"""Findings that ask for a plan get one: what fits, written and judged as files before it is offered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import memlint.fixes.moves.hardware as hardware_advice
import memlint.fixes.planner as planner
import memlint.fixes.step as ladder
from memlint._record import NamedTuple
from memlint.findings import Edit, Finding, Fix
from memlint.fixes.attempt import Attempt, Reanalyse, attempt, held
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Found
from memlint.run import Run

Estimator = Callable[[Run], Estimate]
LIMIT = 3
TWICE = 1.9  # a plan whose steps take so much longer costs as many hours as more cards would


class WrittenPlan(NamedTuple):
    """A plan as the files would say it."""

    plan: planner.Plan
    tried: Attempt


class PlanOptions(NamedTuple):
    """What one run can do: plans that fit as files, or where none does, steps that help and hardware that would."""

    options: tuple[WrittenPlan, ...] = ()
    advice: tuple[Fix, ...] = ()


def with_plans(analysis: Analysis, estimator: Estimator, again: Reanalyse) -> tuple[Finding, ...]:
    """The analysis' findings; those of rules with `fix: plan` carry plans, those with edits carry patches."""
    known: dict[int, PlanOptions] = {}
    done = []
    for found in analysis.found:
        if found.plan and found.run >= 0:
            if found.run not in known:
                known[found.run] = options(analysis, found.run, estimator, again)
            finding = found.finding._replace(fixes=_fixes(analysis, found, known[found.run]))
        else:
            finding = _patched(analysis, found.finding, again)
        done.append(finding)
    return tuple(done)


def options(analysis: Analysis, index: int, estimator: Estimator, again: Reanalyse) -> PlanOptions:
    """Plans for one run of the analysis, each written in memory, read back and estimated from what the files say."""
    run, before = analysis.runs[index], analysis.estimates[index]
    search = planner.SearchHooks(estimator, express(analysis))
    fitting = tuple(_read_back(analysis, index, planner.plans(run, before, search, LIMIT + 1), again, must_fit=True))
    over = before.budget_bytes and before.verdict not in ("fits", "unknown")
    near = sum(option.plan.speed < TWICE for option in fitting)
    beside = hardware_advice.advice(run, before, estimator, express(analysis)) if over and near < LIMIT else ()
    if fitting:
        kept = without_the_slowest(fitting) if beside and len(fitting) >= LIMIT else fitting
        return PlanOptions(kept, beside[: max(0, LIMIT - len(kept))])
    return PlanOptions(
        tuple(_read_back(analysis, index, planner.candidates(run, before, search, LIMIT), again, False)), beside
    )


def without_the_slowest(fitting: tuple[WrittenPlan, ...]) -> tuple[WrittenPlan, ...]:
    """All but one of the plans that are told, in their order: the cards take the place of one that doubles the time."""
    kept = sorted(fitting, key=lambda option: option.plan.speed >= TWICE)[: LIMIT - 1]
    return tuple(option for option in fitting if option in kept)


def _read_back(
    analysis: Analysis, index: int, found: tuple[planner.Plan, ...], again: Reanalyse, must_fit: bool
) -> Iterator[WrittenPlan]:
    """Those of the plans that the files can say, and that still do what was planned when they are read. Of those that
    differ in how far they go alone (half the length, a quarter of it) the cheapest."""
    before = analysis.estimates[index]
    seen: set[frozenset[str]] = set()
    for plan in found:
        option = _written(analysis, index, plan, again)
        if option is None or not helps(option.plan.estimate, before, must_fit):
            continue
        if must_fit and option.plan.estimate != plan.estimate:
            option = _without_the_idle(analysis, index, option, again)
        kind = frozenset(step.group if step.group in planner.LADDERS else step.title for step in option.plan.steps)
        if must_fit and kind in seen:
            continue
        seen.add(kind)
        yield option


def _written(analysis: Analysis, index: int, plan: planner.Plan, again: Reanalyse) -> WrittenPlan | None:
    """The plan with the estimate of the written files, which is what counts; None where they cannot be written, or the
    framework would refuse them."""
    tried = attempt(analysis, _edits(analysis, analysis.runs[index], plan.changes) or (), None, again)
    if not tried.holds or tried.after is None or len(tried.after.estimates) <= index:
        return None
    if new_errors(analysis, tried.after):
        return None
    return WrittenPlan(plan._replace(estimate=tried.after.estimates[index]), tried)


def new_errors(before: Analysis, after: Analysis) -> tuple[str, ...]:
    """Rules of the errors that `after` has more of, but for the verdict on memory, which estimates speak of."""
    counts = [
        Counter(one.finding.rule for one in found.found if one.finding.severity == "error" and not one.plan)
        for found in (before, after)
    ]
    return tuple((counts[1] - counts[0]).elements())


def _without_the_idle(analysis: Analysis, index: int, option: WrittenPlan, again: Reanalyse) -> WrittenPlan:
    """The files may need less than was planned, and fit without one of the steps: dearest first, none is left that
    does nothing."""
    for step in sorted(option.plan.steps, key=ladder.cost, reverse=True):
        fewer = option.plan._replace(steps=tuple(other for other in option.plan.steps if other is not step))
        rest = _written(analysis, index, fewer, again) if fewer.steps else None
        if rest is not None and rest.plan.estimate.verdict == "fits":
            option = rest
    return option


def express(analysis: Analysis) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """What the analysis' format can write of a change."""
    return lambda run, changes: _edits(analysis, run, changes)


def _edits(analysis: Analysis, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    if analysis.format is None or analysis.parsed is None:
        return None
    return analysis.format.edits(analysis.parsed, run, changes)


def _fixes(analysis: Analysis, found: Found, known: PlanOptions) -> tuple[Fix, ...]:
    """The plans that solve the finding without a new one; where none fits, steps that help, and hardware."""
    before = analysis.estimates[found.run]
    fixes = []
    for plan, tried in known.options:
        if plan.estimate.verdict != "fits" or held(tried, analysis, found.finding).holds:
            fixes.append(planner.as_fix(plan, before, tried.edits)._replace(patches=tried.patches))
    return (*fixes[:LIMIT], *known.advice)


def helps(after: Estimate, before: Estimate, must_fit: bool) -> bool:
    """Whether a change is worth offering: it fits, or (where nothing does) takes off more than noise."""
    high, low = planner.peak(before), planner.peak(after)
    if high is None or low is None:
        return False
    return after.verdict == "fits" if must_fit else high - low > planner.WORTHWHILE * high


def _patched(analysis: Analysis, finding: Finding, again: Reanalyse) -> Finding:
    """The finding with its fixes' patches; a fix that breaks a law is told without them."""
    fixes = []
    for fix in finding.fixes:
        if fix.edits:
            tried = attempt(analysis, fix.edits, finding, again)
            fix = fix._replace(patches=tried.patches) if tried.holds else fix._replace(edits=(), safe=False)
        fixes.append(fix)
    return finding._replace(fixes=tuple(fixes))
