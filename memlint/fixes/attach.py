"""Findings that ask for a plan get one: what fits, written and judged as files before it is offered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.checks.engine import Analysis, Found
from memlint.findings import Edit, Finding, Fix
from memlint.fixes.attempt import Reanalyse, attempt
from memlint.fixes.planner import WORTHWHILE, Plan, Search, as_fix, candidates, peak, plans
from memlint.memory.model import Estimate
from memlint.run import Run

Estimator = Callable[[Run], Estimate]
LIMIT = 3


def with_plans(analysis: Analysis, estimator: Estimator, again: Reanalyse) -> tuple[Finding, ...]:
    """The analysis' findings; those of rules with `fix: plan` carry plans, those with edits carry patches."""
    plans_of: dict[int, tuple[tuple[Plan, tuple[Edit, ...]], ...]] = {}
    done = []
    for found in analysis.found:
        if found.plan and found.run >= 0:
            if found.run not in plans_of:
                plans_of[found.run] = _plans(analysis, found.run, estimator)
            finding = found.finding._replace(fixes=_fixes(analysis, found, plans_of[found.run], again))
        else:
            finding = _patched(analysis, found.finding, again)
        done.append(finding)
    return tuple(done)


def _plans(analysis: Analysis, index: int, estimator: Estimator) -> tuple[tuple[Plan, tuple[Edit, ...]], ...]:
    run, before = analysis.runs[index], analysis.estimates[index]
    search = Search(estimator, express(analysis))
    found = plans(run, before, search, LIMIT + 2) or candidates(run, before, search, LIMIT)
    return tuple((plan, _edits(analysis, run, plan.changes) or ()) for plan in found)


def express(analysis: Analysis) -> Callable[[Run, Mapping[str, Any]], tuple[Edit, ...] | None]:
    """What the analysis' format can write of a change."""
    return lambda run, changes: _edits(analysis, run, changes)


def _edits(analysis: Analysis, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    if analysis.format is None or analysis.parsed is None:
        return None
    return analysis.format.edits(analysis.parsed, run, changes)


def _fixes(
    analysis: Analysis,
    found: Found,
    options: tuple[tuple[Plan, tuple[Edit, ...]], ...],
    again: Reanalyse,
) -> tuple[Fix, ...]:
    """The plans that, written and read back, solve the finding without a new one; helpful steps where none fits."""
    before = analysis.estimates[found.run]
    fixes = []
    for plan, edits in options:
        fits = plan.estimate.verdict == "fits"
        tried = attempt(analysis, edits, found.finding if fits else None, again)
        if not edits or not tried.holds or tried.after is None or len(tried.after.estimates) <= found.run:
            continue
        # What counts is what the written files say, not what was planned.
        written = plan._replace(estimate=tried.after.estimates[found.run])
        if helps(written.estimate, before, fits):
            fixes.append(as_fix(written, before, edits)._replace(patches=tried.patches))
    return tuple(fixes[:LIMIT])


def helps(after: Estimate, before: Estimate, must_fit: bool) -> bool:
    """Whether a change is worth offering: it fits, or (where nothing does) takes off more than noise."""
    high, low = peak(before), peak(after)
    if high is None or low is None:
        return False
    return after.verdict == "fits" if must_fit else high - low > WORTHWHILE * high


def _patched(analysis: Analysis, finding: Finding, again: Reanalyse) -> Finding:
    """The finding with its fixes' patches; a fix that breaks a law is told without them."""
    fixes = []
    for fix in finding.fixes:
        if fix.edits:
            tried = attempt(analysis, fix.edits, finding, again)
            fix = fix._replace(patches=tried.patches) if tried.holds else fix._replace(edits=(), safe=False)
        fixes.append(fix)
    return finding._replace(fixes=tuple(fixes))
