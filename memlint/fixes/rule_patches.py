"""Patches for the fixes that rules define.

Every fix is written to the files in memory, read back, and estimated from there: that figure is shown. A fix that
cannot be written, or that the framework would refuse, says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import memlint.fixes.costs as costs
from memlint.findings import Finding, Fix, noted
from memlint.fixes.attempt import attempt
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.ruleset.found import Found
from memlint.ruleset.rule_fixes import Estimator, figured
from memlint.run import Run

# The fields of a run that say how it trains; the others say where that was read, and what a plan would change.
_FIRST_VALUE, _LAST_VALUE = Run._fields.index("model"), Run._fields.index("planning")
_NO_KEY = "not written: no key of these files says it"


def with_patches(
    analysis: Analysis, estimator: Estimator, reanalyse: Reanalyse, first_alone: bool = False
) -> tuple[Finding, ...]:
    """The analysis' findings, whose fixes carry patches. `first_alone`: each finding has its first fix alone, for one
    line of text: the others are not tried, and what no such line says of the first is not computed."""
    return tuple(
        with_fixes(found.finding, patched(analysis, found, estimator, reanalyse, first_alone), analysis, first_alone)
        for found in analysis.found
    )


def with_fixes(finding: Finding, fixes: Iterable[Fix], analysis: Analysis, first_alone: bool) -> Finding:
    """The finding with `fixes`, or with the first alone. None is safe where a script reads the file in its own way."""
    kept = tuple(islice(fixes, 1 if first_alone else None))
    if analysis.is_unjudged:
        kept = tuple(fix._replace(safe=False) for fix in kept)
    return finding._replace(fixes=kept)


def patched(
    analysis: Analysis, found: Found, estimator: Estimator, reanalyse: Reanalyse, is_for_a_line: bool
) -> Iterator[Fix]:
    """The finding's fixes with what they do to the files; a fix that is not written says why."""
    fixes: Iterable[Fix] = found.finding.fixes
    if found.run >= 0:
        fixes = figured(fixes, analysis.runs[found.run], analysis.estimated[found.run], estimator)
    tried = (_as_written(analysis, found, fix, reanalyse, is_for_a_line) for fix in fixes)
    return (fix for fix in tried if fix is not None)


def _as_written(analysis: Analysis, found: Found, fix: Fix, reanalyse: Reanalyse, is_for_a_line: bool) -> Fix | None:
    """The fix with its patches, and with price and figures of the changed files. None where it makes the run need more
    than the card has. `is_for_a_line`: a figure from before the change is shown beside one of after it alone."""
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
    if old.is_of_same_run(new) or (is_for_a_line and new.whole.on_card is None):
        return fix
    if old.whole.on_card == new.whole.on_card:
        return fix
    return _with_figures(fix, old.whole, new.whole)


def _re_estimated(fix: Fix, analysis: Analysis, after: Analysis, index: int) -> Fix | None:
    old, new = analysis.estimated[index].whole, after.estimated[index].whole
    high, low = old.device_high_bytes, new.device_high_bytes
    worse = high is not None and low is not None and low > high
    if new.verdict == "out_of_memory" and (old.verdict != "out_of_memory" or worse):
        return None
    return _with_figures(fix, old, new)


def _with_figures(fix: Fix, old: Estimate, new: Estimate) -> Fix:
    known = old.device_high_bytes is not None and new.device_high_bytes is not None
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
