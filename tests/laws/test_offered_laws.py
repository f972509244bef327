"""What is offered for any run: written, it has no new error, and a plan that fits leaves the run fitting."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.fixes.attempt import attempt
from memlint.fixes.plan_options import PlanOptions, options
from memlint.fixes.written_plans import new_errors
from memlint.lint.analyse_file import FileAnalyser
from memlint.ruleset.engine import Analysis, Engine
from tests.comparisons.random_plans import answered, changed, drawn, read_otherwise


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.booleans())
def test_a_plan_keeps_what_it_promises_when_its_file_is_read_anew(seed: int, several: bool) -> None:
    case, analysis, analyser = drawn(seed, several)
    for one in changed(case, analysis, analyser):
        assert one.keeps_its_promise, f"{case.name}: {one.title}"


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6), st.booleans())
def test_a_planned_run_is_the_run_that_its_file_says(seed: int, several: bool) -> None:
    """In every field that memory reads: else the search weighs another run than the one that is offered."""
    case, analysis, analyser = drawn(seed, several)
    for one in _options(analysis, analyser).options:
        titles = [step.title for step in one.plan.steps]
        assert read_otherwise(one) == (), f"{case.name}: {titles}"


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 10**6))
def test_no_fix_of_any_finding_brings_an_error(seed: int) -> None:
    case, analysis, analyser = drawn(seed)
    workspace = analyser.workspaces.of("train.yaml")
    again = analyser.reanalysis(analysis, workspace)
    for finding in analyser.with_fixes(analysis, workspace):
        for fix in finding.fixes:
            if fix.patches:
                after = attempt(analysis, fix.edits, None, again).after
                assert after is not None and new_errors(analysis, after) == (), f"{case.name}: {fix.title}"


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 10**6))
def test_a_fix_that_is_offered_solves_its_finding(seed: int) -> None:
    """Law 6 of fixes/laws.py, for what a check offers: a fix of memory leaves the run fitting, any other one takes its
    finding away."""
    case, analysis, analyser = drawn(seed)
    workspace = analyser.workspaces.of("train.yaml")
    again = analyser.reanalysis(analysis, workspace)
    for finding in analyser.with_fixes(analysis, workspace):
        for fix in finding.fixes:
            if fix.patches and not fix.partial:
                assert attempt(analysis, fix.edits, finding, again).holds, f"{case.name}: {finding.rule}: {fix.title}"


_FEW = 4  # nobody leaves seven cards of eight idle (memlint/fixes/plan_options.py, _MOST_CARDS_TO_GIVE_UP)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 10**6))
def test_what_one_card_does_without_a_risk_several_do_or_it_is_told(seed: int) -> None:
    """More of the same cards may need more memory each (gathered layers, communication): then the plan for one of them
    is told, where they are few."""
    case, analysis, analyser = drawn(seed, several=True)
    if case.framework == "verl" or case.gpus > _FEW or not _fits_without_a_risk(*answered(case._replace(gpus=1))):
        return
    known = _options(analysis, analyser)
    told = any("one of these cards" in fix.title or "expandable" in fix.title for fix in known.advice)
    by_hand = any("not written" in fix.note for fix in known.advice)
    assert told or by_hand or any(one.plan.risk == 0 for one in known.options if one.plan.estimate.verdict == "fits")


def _options(analysis: Analysis, analyser: FileAnalyser) -> PlanOptions:
    again = analyser.reanalysis(analysis, analyser.workspaces.of("train.yaml"))
    return options(analysis, 0, Engine(()).estimator, again)


def _fits_without_a_risk(analysis: Analysis, analyser: FileAnalyser) -> bool:
    if not analysis.runs or analysis.estimates[0].verdict == "fits":
        return bool(analysis.runs)
    found = _options(analysis, analyser).options
    return any(one.plan.risk == 0 and one.plan.estimate.verdict == "fits" for one in found)
