"""Attaches fixes to findings: plans to those of rules with `fix: plan`, patches to the fixes that other rules define
(`rule_patches`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from memlint.findings import Finding, Fix
from memlint.fixes.attempt import check_finding
from memlint.fixes.laws import identity
from memlint.fixes.plan_options import Estimator, PlanOptions, RunPlanner
from memlint.fixes.rule_patches import patched, with_fixes
from memlint.fixes.written_plans import WrittenPlan, fix_of, main_finding
from memlint.ruleset.engine import Analysis, Judged, Reanalyse
from memlint.ruleset.found import Found


def with_plans(
    analysis: Analysis, estimator: Estimator, reanalyse: Reanalyse, judge: Judged, first_alone: bool = False
) -> tuple[Finding, ...]:
    """The analysis' findings; those of rules with `fix: plan` carry plans, those with edits carry patches. `judge`:
    what plans are judged by, as the analysis may have fewer rules. `first_alone`: each finding has its first fix alone,
    for a line of text: the others are not tried, and what no such line says of the first is not computed."""

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
            fixes = patched(analysis, found, estimator, reanalyse, first_alone)
        done.append(with_fixes(found.finding, fixes, analysis, first_alone))
    return tuple(done)


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
