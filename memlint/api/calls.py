"""The functions of the library. They print nothing, exit nothing, and may be called from any thread.

A lock runs one call at a time, because memlint's caches are shared. Each call reads files and settings again; rules are
read once per process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from threading import RLock
from typing import Any

import memlint
import memlint.api.sources as sources
from memlint.api.results import CheckResult, FixResult, PlanResult, RunEstimate
from memlint.api.sources import CallFacts, Contents, GivenFiles, Source
from memlint.errors import Error, UsageError
from memlint.fixes import goals
from memlint.fixes.moves.hardware import MOST_GPUS
from memlint.lint.analyse_file import FileAnalysis
from memlint.lint.fix_files import (
    FixedFiles,
    FixRequest,
    fix_files,
    linter_maker,
    new_errors,
    parser_disagreements,
)
from memlint.lint.linter import Linter
from memlint.lint.many.merge_reports import merge_files, with_waiver_findings
from memlint.lint.measurements import forget_measurements
from memlint.lint.plans import PlanRequest, plan_files
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.lint.summary import run_report
from memlint.memory.estimate import estimate as closed_form
from memlint.question.answer import answer_with
from memlint.question.check import question_of
from memlint.report.model import FileReport, Report
from memlint.run import Run
from memlint.settings import forget_changed

_lock = RLock()
_last_linter: list[Linter] = []  # the last linter, whose rules the next one reuses


def estimate(
    source: Source | Run | None = None,
    /,
    *,
    path: str | None = None,
    files: Mapping[str, Contents] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    model: str | None = None,
    images: int | None = None,
    longest_sample: int | None = None,
    versions: Mapping[str, str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    **question: object,
) -> RunEstimate:
    """The GPU memory of one run.

    `source`: a path, the text of a file, a dict with a config's keys, or a `Run`. `path`: the file name of a text; its
    suffix tells the syntax. `files`: other files that the text names, by name. The other keywords are facts that a
    config does not state, as on the command line. Without a source: a run that no file describes, given by `model` and
    `question`, the fields of `memlint.question.Question` (method="qlora", length=4096). Raises Error, with the place of
    the mistake if there is one.
    """
    facts = CallFacts(gpu, gpus, gpus_per_node, model, images, longest_sample, versions, settings, isolated)
    if source is None:
        sources.refuse_beside_question(path, files, images, longest_sample)
        return _of_question(facts, question)
    if question:
        raise UsageError(f"{next(iter(question))}=: asks about a run without a file, and a source was given")
    if isinstance(source, Run):
        return _of_run(source)
    with _lock:
        given = sources.one_file(source, path, files)
        found = estimates_of(sources.request(facts, given), given)
    if len(found) > 1:
        raise Error(f"{found[0].path}: {len(found)} runs; `memlint.estimates` returns all of them", found[0].path)
    return found[0]


def estimates(
    source: Source,
    /,
    *,
    path: str | None = None,
    files: Mapping[str, Contents] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    model: str | None = None,
    images: int | None = None,
    longest_sample: int | None = None,
    versions: Mapping[str, str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    isolated: bool = False,
) -> tuple[RunEstimate, ...]:
    """Like `estimate`, for files with several runs: documents of a YAML file, launches of a script."""
    facts = CallFacts(gpu, gpus, gpus_per_node, model, images, longest_sample, versions, settings, isolated)
    with _lock:
        given = sources.one_file(source, path, files)
        return estimates_of(sources.request(facts, given), given)


def estimates_of(asked: LintRequest, given: GivenFiles) -> tuple[RunEstimate, ...]:
    """The runs of the first file of `given`. Raises Error if it has none."""
    with _lock:
        linter = _linter(asked, given)
        analysed = linter.analyse(given.paths[0])
        file_report = linter.report(analysed).report
        found = _estimates(analysed, file_report)
        if not found:
            raise _nothing_to_estimate(file_report)
        return found


def check(
    source: Source | Iterable[Source],
    /,
    *,
    path: str | None = None,
    files: Mapping[str, Contents] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    model: str | None = None,
    images: int | None = None,
    longest_sample: int | None = None,
    versions: Mapping[str, str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    fixes: bool = True,
) -> CheckResult:
    """The findings about a config, about files and folders, or about a text.

    `select`, `ignore`: rules, as on the command line. `fixes`: whether to search for fixes, which takes most of the
    time. The other parameters: see `estimate`. Broken files are findings; Error is raised for a path that does not
    exist.
    """
    facts = CallFacts(gpu, gpus, gpus_per_node, model, images, longest_sample, versions, settings, isolated)
    with _lock:
        given = sources.some_files(source, path, files)
        asked = sources.request(facts, given, fixes)._replace(select=tuple(select), ignore=tuple(ignore))
        return check_of(asked, given)


def check_of(asked: LintRequest, given: GivenFiles) -> CheckResult:
    """The findings about `given`."""
    with _lock:
        linter = _linter(asked, given)
        linted: list[LintedFile] = []
        found: list[RunEstimate] = []
        for item in given.found:
            one, its_runs = _lint(linter, item.path, item.named)
            linted.append(one)
            found += its_runs
        reports = with_waiver_findings(merge_files(linted, len(linted)))
        return CheckResult(Report(reports, (), memlint.__version__), tuple(found))


def plan(
    source: Source,
    /,
    *,
    path: str | None = None,
    files: Mapping[str, Contents] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    model: str | None = None,
    images: int | None = None,
    longest_sample: int | None = None,
    versions: Mapping[str, str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    goal: str = "",
    keep: Iterable[str] = (),
    most_cards: int = MOST_GPUS,
) -> PlanResult:
    """Changes that make a run fit, the largest batch, the longest sequence, the fewest cards.

    `goal`: what plans should reach besides a fitting run: "batch", "length", "cards" or "speed". `keep`: keys that no
    plan may change. `most_cards`: no plan uses more cards. The other parameters: see `estimate`. Raises Error.
    """
    if goal and goal not in goals.GOALS:
        raise UsageError(f"goal={goal!r}: one of {', '.join(goals.GOALS)}")
    facts = CallFacts(gpu, gpus, gpus_per_node, model, images, longest_sample, versions, settings, isolated)
    wanted = PlanRequest(goal, "", tuple(keep), most_cards)
    with _lock:
        given = sources.one_file(source, path, files)
        return plan_of(sources.request(facts, given), given, wanted)


def plan_of(asked: LintRequest, given: GivenFiles, wanted: PlanRequest) -> PlanResult:
    """Ways to make the runs of `given` fit. Raises Error if there are no runs."""
    with _lock:
        rows = plan_files(_linter(asked, given), given.paths, wanted)
        return PlanResult(tuple(row.row for row in rows))


def fix(
    source: Source | Iterable[Source],
    /,
    *,
    path: str | None = None,
    files: Mapping[str, Contents] | None = None,
    gpu: str | None = None,
    gpus: int | None = None,
    gpus_per_node: int | None = None,
    model: str | None = None,
    images: int | None = None,
    longest_sample: int | None = None,
    versions: Mapping[str, str] | None = None,
    settings: str | os.PathLike[str] | None = None,
    isolated: bool = False,
    unsafe: bool = False,
    rules: Iterable[str] = (),
    number: int = 0,
) -> FixResult:
    """Fixes in memory; `FixResult.write()` writes them.

    `unsafe`: also fixes that may change the training result. `rules`: only fixes of these rules. `number`: the number
    of the fix to take, as `plan` counts them. The other parameters: see `estimate`. Raises Error.
    """
    facts = CallFacts(gpu, gpus, gpus_per_node, model, images, longest_sample, versions, settings, isolated)
    with _lock:
        given = sources.some_files(source, path, files)
        _forget()
        make = linter_maker(sources.request(facts, given, fixes=True), given.workspace, _last())
        fixed = fix_files(given.paths, FixRequest(unsafe, tuple(rules), number), make)
        if fixed.broken:
            raise AssertionError(f"a fix breaks the law {fixed.broken[0][1].law!r}: a bug of memlint")
        wrong = (*new_errors(given.paths, fixed, make), *parser_disagreements(fixed.before, fixed.contents))
        if wrong:
            raise Error("; ".join(wrong))
        return _fix_result(fixed, given)


def _fix_result(fixed: FixedFiles, given: GivenFiles) -> FixResult:
    after = {name: fixed.contents[name] for name in fixed.changed}
    before = {name: fixed.before[name] for name in after}
    return FixResult(
        {name: sources.text_of(new) for name, new in after.items()},
        {name: sources.text_of(old) for name, old in before.items()},
        fixed.applied,
        fixed.passed_over,
        before,
        after,
        given.workspace is None,
    )


def _linter(asked: LintRequest, given: GivenFiles) -> Linter:
    """A linter that sees files as they are now. Settings that changed since the last call are read again."""
    _forget()
    linter = Linter(asked, given.workspace, like=_last())
    _last_linter[:] = [linter]
    return linter


def _last() -> Linter | None:
    return _last_linter[0] if _last_linter else None


def _forget() -> None:
    forget_changed()
    forget_measurements()


def _lint(linter: Linter, path: str, named: bool) -> tuple[LintedFile, tuple[RunEstimate, ...]]:
    """The report of one file, and its runs. A crash is a finding on the file."""
    try:
        analysed = linter.analyse(path, named)
        linted = linter.report(analysed)
    except UsageError:
        raise
    except Exception:
        return linter.lint_file(path, named), ()
    return linted, _estimates(analysed, linted.report)


def _estimates(analysed: FileAnalysis, file_report: FileReport) -> tuple[RunEstimate, ...]:
    runs = [run for analysis in analysed.analyses for run in analysis.runs]
    return tuple(map(RunEstimate, runs, file_report.runs))


def _of_question(facts: CallFacts, fields: Mapping[str, object]) -> RunEstimate:
    """The estimate of the run that keywords describe, as for `memlint estimate --model ...`."""
    named = {field: getattr(facts, field) for field in ("model", "gpu", "gpus", "gpus_per_node")}
    others = CallFacts(versions=facts.versions, settings=facts.settings, isolated=facts.isolated)
    with _lock:
        _forget()
        found, linter = answer_with(question_of({**named, **fields}), sources.stated(others), _last())
        _last_linter[:] = [linter]
        return RunEstimate(found.neutral, found.run)


def _of_run(run: Run) -> RunEstimate:
    return RunEstimate(run, run_report(run, closed_form(run), with_assumptions=True))


def _nothing_to_estimate(file_report: FileReport) -> Error:
    """The error for a file without a run: it cannot be read, is broken, or is not a training config."""
    worst: Any = next(iter(sorted(file_report.findings, key=lambda item: item.severity != "error")), None)
    if worst is None:
        return Error(f"{file_report.path}: no training config that memlint knows", file_report.path)
    place = worst.location
    return Error(f"{place.path}:{place.line}:{place.column}: {worst.message}", place.path, place.line, place.column)
