"""Attaches fixes to findings: plans to those of rules with `fix: plan`, patches to the fixes that other rules define.

Every fix is written to the files in memory, read back, and estimated from there: that figure is shown. A fix that
cannot be written, or that the framework would refuse, says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice

import memlint.fixes.costs as costs
from memlint.findings import Finding, Fix
from memlint.fixes.attempt import attempt, check_finding
from memlint.fixes.laws import identity
from memlint.fixes.plan import noted, peak
from memlint.fixes.plan_options import Estimator, PlanOptions, RunPlanner
from memlint.fixes.written_plans import WrittenPlan, fix_of, main_finding
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Judged, Reanalyse
from memlint.ruleset.found import Found
from memlint.ruleset.rule_fixes import figured
from memlint.run import Run

# The fields of a run that say how it trains; the others say where that was read, and what a plan would change.
_FIRST_VALUE, _LAST_VALUE = Run._fields.index("model"), Run._fields.index("planning")
_NO_KEY = "not written: no key of these files says it"


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
    def planner_of(run: int) -> RunPlanner:
        return RunPlanner(judge.analysis, run, estimator, judge.reanalyse)

    done = []
    for found in analysis.found:
        fixes: Iterable[Fix]
        if found.plan and found.run >= 0:
            planner = planner_of(found.run)
            fixes = _fixes(judge.analysis, found, planner.first_option()) if first_alone else ()
            fixes = fixes or _fixes(judge.analysis, found, planner.options())
        else:
            fixes = _patched(analysis, found, estimator, reanalyse)
        finding = found.finding._replace(fixes=tuple(islice(fixes, 1 if first_alone else None)))
        done.append(_none_safe(finding) if analysis.is_unjudged else finding)
    return tuple(done)


def _none_safe(finding: Finding) -> Finding:
    return finding._replace(fixes=tuple(fix._replace(safe=False) for fix in finding.fixes))


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


def _patched(analysis: Analysis, found: Found, estimator: Estimator, reanalyse: Reanalyse) -> Iterator[Fix]:
    """The finding's fixes with what they do to the files; a fix that is not written says why."""
    fixes: Iterable[Fix] = found.finding.fixes
    if found.run >= 0:
        fixes = figured(fixes, analysis.runs[found.run], analysis.estimated[found.run], estimator)
    tried = (_as_written(analysis, found, fix, reanalyse) for fix in fixes)
    return (fix for fix in tried if fix is not None)


def _as_written(analysis: Analysis, found: Found, fix: Fix, reanalyse: Reanalyse) -> Fix | None:
    """The fix with its patches, and with price and figures of the changed files. None where it makes the run need more
    than the card has."""
    if not fix.edits:
        return noted(fix, _NO_KEY) if fix.changes else fix
    tried = attempt(analysis, fix.edits, found.finding, reanalyse)
    if not tried.holds:
        reason = tried.refused or "memlint cannot place it safely"
        return noted(fix._replace(edits=(), safe=False), f"not written: {reason}")
    fix = fix._replace(patches=tried.patches)
    if found.run < 0 or tried.after is None or len(tried.after.estimated) <= found.run:
        return fix
    fix = _priced(fix, analysis, tried.after, found.run)
    if fix.changes:
        return _re_estimated(fix, analysis, tried.after, found.run)
    old, new = analysis.estimated[found.run], tried.after.estimated[found.run]
    if old.is_of_same_run(new) or old.whole.on_card == new.whole.on_card:
        return fix
    return _with_figures(fix, old.whole, new.whole)


def _re_estimated(fix: Fix, analysis: Analysis, after: Analysis, index: int) -> Fix | None:
    old, new = analysis.estimated[index].whole, after.estimated[index].whole
    high, low = peak(old), peak(new)
    worse = high is not None and low is not None and low > high
    if new.verdict == "out_of_memory" and (old.verdict != "out_of_memory" or worse):
        return None
    return _with_figures(fix, old, new)


def _with_figures(fix: Fix, old: Estimate, new: Estimate) -> Fix:
    known = peak(old) is not None and peak(new) is not None
    return fix._replace(before=old.on_card, after=new.on_card, verdict_after=new.verdict if known else "")


def _priced(fix: Fix, analysis: Analysis, after: Analysis, index: int) -> Fix:
    """The fix with the table's price, where the table knows of one; a rule may know of more risk. The table is about
    training alone, and a run that stays as it is costs nothing."""
    old, new = analysis.runs[index], after.runs[index]
    if old.purpose != "train" or old[_FIRST_VALUE:_LAST_VALUE] == new[_FIRST_VALUE:_LAST_VALUE]:
        return fix
    models = (costs.model_of(analysis.estimated[index].tensors), costs.model_of(after.estimated[index].tensors))
    price = costs.between(old, new, models)
    quality = max(fix.quality, price.quality, key=costs.QUALITIES.index)
    return fix._replace(speed=price.speed if price.speed != 1 else fix.speed, quality=quality)
