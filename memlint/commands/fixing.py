"""Applies the fixes of findings to files, or prints them as a patch: for `memlint fix` and `memlint check --fix`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping

from memlint._record import NamedTuple
from memlint.commands import options
from memlint.commands.consent import Consent
from memlint.errors import UsageError
from memlint.findings import SEVERITIES, Finding, Fix
from memlint.fixes.apply import AppliedFixes, Proposal, Propose, accept_all, apply_fixes
from memlint.fixes.attach import main_finding
from memlint.fixes.costs import QUALITIES
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.laws import Identity, identity
from memlint.fixes.write import Write, WriteRefused, write_all
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest
from memlint.report.progress import watched
from memlint.rule_selectors import is_chosen
from memlint.ruleset.engine import Analysis

BUG_NOTE = "This is a bug in memlint, not in your config: nothing was written. Please report it."


class FixBug(Exception):
    """A fix broke a law: a bug of memlint, told in lines. Nothing was written."""


class FixedFiles(NamedTuple):
    """`number`: fixes that were applied; `files`: how many files they changed; `contents`: the changed files."""

    paths: tuple[str, ...]
    number: int
    files: int
    contents: Mapping[str, bytes]


def fix_files(given: options.Options) -> FixedFiles:
    """Fixes the files that the options choose. What was done goes to standard error. Raises UsageError and FixBug."""
    if "-" in given.paths:
        raise UsageError("fix writes files: standard input is none")
    paths = tuple(item.path for item in options.config_files(given))
    request = options.lint_request(given)
    consent = Consent(request.cwd) if given.interactive else None
    changed: Mapping[str, bytes] = {}
    before: dict[str, bytes] = {}
    number = 0
    told: list[str] = []
    for path in paths if consent else watched(paths, len(paths)):
        passed_over: dict[Identity, tuple[Finding, str]] = {}
        proposals = _propose(path, request, given, passed_over)
        settled = apply_fixes(proposals, changed, consent.accepts if consent else accept_all)
        if settled.broken:
            raise FixBug("".join(_bug_lines(settled)))
        told += _outcome(settled, passed_over)
        changed, number = settled.contents, number + len(settled.applied)
        before |= settled.before
        if consent and consent.is_over:
            break
    sys.stderr.write("".join(told))
    _refuse_harm(paths, request, before, changed)
    files = _print_patch(before, changed) if given.diff else _write_files(before, changed, paths)
    sys.stderr.write(f"memlint: {number} fixed in {files} file{'s' * (files != 1)}\n")
    return FixedFiles(paths, number, files, changed)


def _refuse_harm(
    paths: tuple[str, ...], request: LintRequest, before: Mapping[str, bytes], changed: Mapping[str, bytes]
) -> None:
    """Raises UsageError where another file would get an error, FixBug where a second parser reads something else."""
    if not changed:
        return
    new_errors = tuple(_new_errors(paths, with_contents(request, before), with_contents(request, changed)))
    if new_errors:
        raise UsageError("; ".join(new_errors) + ": nothing was written; fix the files that share it one by one")
    disputed = tuple(_parser_disagreements(before, changed))
    if disputed:
        raise FixBug("".join(f"{line}\n" for line in disputed))


def with_contents(request: LintRequest, contents: Mapping[str, bytes]) -> LintRequest:
    return request._replace(contents=(*request.contents, *contents.items()))


def _propose(
    path: str,
    request: LintRequest,
    given: options.Options,
    passed_over: dict[Identity, tuple[Finding, str]],
) -> Propose:
    """`passed_over` is filled, at each pass, with the findings that have fixes none of which is tried, and why."""
    rules = options.words(given.rule)

    def propose(contents: Mapping[str, bytes]) -> Iterator[Proposal]:
        passed_over.clear()
        linter = Linter(with_contents(request, contents))
        linter.analyser.folds_causes = False
        analysed = linter.analyse(path)
        findings = linter.report(analysed).report.findings
        workspace = linter.analyser.workspaces.of(path)
        proposals = []
        for finding in findings:
            analysis = _analysis_of(finding, analysed.analyses)
            if analysis is None or not _is_wanted(finding, analysis, rules, given):
                continue
            fixes = tuple(_applicable_fixes(finding, analysis))
            fix = _chosen(fixes, given)
            if fix is None and finding.fixes:
                passed_over[identity(finding)] = (finding, _why_passed_over(finding, fixes, given))
            if fix is not None:
                proposals.append(Proposal(finding, fix, analysis, linter.analyser.reanalysis(analysis, workspace)))
        yield from sorted(proposals, key=_risk)

    return propose


def _analysis_of(finding: Finding, analyses: tuple[Analysis, ...]) -> Analysis | None:
    """The analysis that a finding comes from."""
    key = identity(finding)
    return next((item for item in analyses if key in map(identity, item.findings)), None)


def _is_wanted(finding: Finding, analysis: Analysis, rules: tuple[str, ...], given: options.Options) -> bool:
    """Whether the finding is to be fixed. `--plan N` alone writes what `memlint plan` numbers N, and nothing else."""
    if rules:
        return is_chosen(rules, (), finding.rule, finding.name)
    if not given.plan:
        return True
    mains = (main_finding(analysis, index) for index in range(len(analysis.runs)))
    return any(main is not None and identity(main.finding) == identity(finding) for main in mains)


def _risk(proposal: Proposal) -> tuple[bool, int, float]:
    """Fixes that leave the training result as it is come first; whichever are then still needed, by risk and time."""
    fix = proposal.fix
    return not fix.safe, QUALITIES.index(fix.quality), fix.speed


def _applicable_fixes(finding: Finding, analysis: Analysis) -> Iterator[Fix]:
    """The planner's fixes of a finding, or else the fixes that its rule defines and `check` shows.

    A rule's own fixes are taken before they were checked, so that one that breaks a law is reported.
    """
    key = identity(finding)
    found = next(item for item in analysis.found if identity(item.finding) == key)
    shown = {fix.title: fix for fix in finding.fixes}
    for fix in finding.fixes if found.plan else found.finding.fixes:
        if fix.title in shown and not fix.partial:
            yield fix if fix.edits else fix._replace(note=shown[fix.title].note)


def _chosen(fixes: tuple[Fix, ...], given: options.Options) -> Fix | None:
    """The fix with the number that was asked for, which is consent to what it changes; else the first that may be
    applied. Of those that cannot be written the first, for its reason."""
    if given.plan:
        return next(iter(fixes[given.plan - 1 : given.plan]), None)
    allowed = [fix for fix in fixes if fix.safe or given.unsafe]
    return next(iter(sorted(allowed, key=lambda fix: not fix.edits)), None)


def _why_passed_over(finding: Finding, fixes: tuple[Fix, ...], given: options.Options) -> str:
    """Why no fix of a finding is tried, though `check` shows some."""
    if not fixes:
        return f"no fix of it makes the run fit; the best one: {finding.fixes[0].title}"
    chosen = fixes[given.plan - 1 : given.plan] if given.plan else fixes
    if not chosen:
        return f"it has no fix {given.plan} that makes the run fit"
    if not any(fix.edits for fix in chosen):
        return f"no edit of these files says it: {chosen[0].title}"
    return f"its fix may change the training result, `--unsafe` applies it: {chosen[0].title}"


def _new_errors(paths: tuple[str, ...], old_request: LintRequest, new_request: LintRequest) -> Iterator[str]:
    """Messages about files that get a new error from a change made for another file with the same companion."""
    old, new = (Linter(request._replace(fixes=False)) for request in (old_request, new_request))
    for path in paths:
        before = {identity(item) for item in old.report_file(path).findings}
        for item in new.report_file(path).findings:
            if item.severity == SEVERITIES[-1] and identity(item) not in before:
                yield f"{path} would get a new error ({item.rule}: {item.message})"


def _parser_disagreements(before: Mapping[str, bytes], changed: Mapping[str, bytes]) -> Iterator[str]:
    """What second parsers say of files to be written: for YAML one that attaches comments to keys, for scripts bash."""
    texts = {path: new for path, new in changed.items() if path.endswith((".yaml", ".yml"))}
    if texts:
        from memlint.fixes.edits.second_opinion import disagreements

        for path, new in texts.items():
            yield from (f"{path}: {reason}" for reason in disagreements(before[path], new))
    scripts = {path: new for path, new in changed.items() if path.endswith((".sh", ".bash", ".slurm", ".sbatch"))}
    if scripts:
        from memlint.fixes.edits.shell_opinion import shell_disagreements

        for path, new in scripts.items():
            yield from (f"{path}: {reason}" for reason in shell_disagreements(before[path], new))


def _print_patch(before: Mapping[str, bytes], changed: Mapping[str, bytes]) -> int:
    texts = [patch(path.replace(os.sep, "/"), before[path], new) for path, new in changed.items()]
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(texts))
    sys.stdout.buffer.flush()
    return sum(map(bool, texts))


def _write_files(before: Mapping[str, bytes], changed: Mapping[str, bytes], paths: tuple[str, ...]) -> int:
    """Writes all files or none and returns their number. Raises UsageError."""
    writes = [Write(path, before[path], new) for path, new in changed.items() if before[path] != new]
    roots = {os.getcwd(), *(os.path.dirname(os.path.abspath(path)) for path in paths)}
    try:
        write_all(writes, roots)
    except WriteRefused as error:
        raise UsageError(str(error)) from None
    return len(writes)


def _outcome(settled: AppliedFixes, passed_over: Mapping[Identity, tuple[Finding, str]]) -> Iterator[str]:
    for finding, fix in settled.applied:
        yield f"{_place(finding)}: {finding.rule} fixed: {fix.title}\n"
    for finding, reason in (*settled.refused, *passed_over.values()):
        yield f"{_place(finding)}: {finding.rule} not fixed: {reason}\n"


def _bug_lines(settled: AppliedFixes) -> Iterator[str]:
    for finding, law in settled.broken:
        yield f"{_place(finding)}: {finding.rule}: the fix breaks the law `{law.law}`: {law.detail}\n"


def _place(finding: Finding) -> str:
    return f"{finding.location.path}:{finding.location.line}"
