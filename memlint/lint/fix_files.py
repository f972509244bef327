"""Applies fixes of findings to files in memory, and records which findings are passed over and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from memlint._record import NamedTuple
from memlint.findings import SEVERITIES, Finding, Fix
from memlint.fixes.apply import Accept, AppliedFix, Proposal, Propose, accept_all, apply_fixes
from memlint.fixes.costs import QUALITIES
from memlint.fixes.laws import BrokenLaw, Identity, identity
from memlint.fixes.written_plans import fix_of, main_finding
from memlint.lint.linter import Linter
from memlint.lint.plans import PlanRequest, plans_of, target_of
from memlint.lint.request import LintRequest
from memlint.repository.workspace import Workspace
from memlint.rule_groups import LAUNCHER_UNKNOWN
from memlint.rule_selectors import is_chosen
from memlint.ruleset.engine import Analysis
from memlint.source.suffixes import SHELL

# Makes a linter that sees changed files. Arguments: the new contents by path, and whether findings get fixes.
MakeLinter = Callable[[Mapping[str, bytes], bool], Linter]
PassedOver = dict[Identity, tuple[Finding, str]]


class FixRequest(NamedTuple):
    """Which fixes to take.

    `unsafe`: also those that may change the training result. `rules`: only fixes of these rules. `plan`: the number of
    the finding's fix to take, from 1 (0: the first that may be applied).
    """

    unsafe: bool = False
    rules: tuple[str, ...] = ()
    plan: int = 0


class FixedFiles(NamedTuple):
    """Files after their fixes. `contents`: the changed files by path; `before`: what they held.

    `passed_over`: findings without an applied fix, each with the reason. `broken`: laws of fixes that failed, which is
    a bug of memlint: nothing must be written then.
    """

    contents: Mapping[str, bytes] = {}
    before: Mapping[str, bytes] = {}
    applied: tuple[AppliedFix, ...] = ()
    passed_over: tuple[tuple[Finding, str], ...] = ()
    broken: tuple[tuple[Finding, BrokenLaw], ...] = ()

    @property
    def changed(self) -> tuple[str, ...]:
        """The paths of the files that now hold something else."""
        return tuple(path for path, new in self.contents.items() if self.before[path] != new)


def linter_maker(request: LintRequest, workspace: Workspace | None = None, like: Linter | None = None) -> MakeLinter:
    """Returns a function that makes linters. All use the rules of `like` (default: those of the first one made).

    `workspace`: the files that they see (default: those on disk).
    """
    made: list[Linter] = [like] if like is not None else []

    def make(contents: Mapping[str, bytes], fixes: bool) -> Linter:
        like = made[0] if made else None
        if workspace is not None:
            linter = Linter(request._replace(fixes=fixes), workspace.overlaid(contents), like=like)
        else:
            over = (*request.contents, *contents.items())
            linter = Linter(request._replace(fixes=fixes, contents=over), like=like)
        made[:] = [linter]
        return linter

    return make


def fix_files(paths: Iterable[str], wanted: FixRequest, make: MakeLinter, accept: Accept = accept_all) -> FixedFiles:
    """Fixes the files one after the other. Each sees what the fixes of earlier files changed.

    `accept`: whether a fix that was tried is wanted."""
    changed: Mapping[str, bytes] = {}
    before: dict[str, bytes] = {}
    applied: list[AppliedFix] = []
    not_applied: list[tuple[Finding, str]] = []
    for path in paths:
        passed_over: PassedOver = {}
        settled = apply_fixes(propose_fixes(path, wanted, make, passed_over), changed, accept)
        if settled.broken:
            return FixedFiles(broken=settled.broken)
        changed = settled.contents
        applied += settled.applied
        not_applied += (*settled.refused, *passed_over.values())
        before |= settled.before
    return FixedFiles(changed, before, tuple(applied), tuple(not_applied))


def propose_fixes(path: str, wanted: FixRequest, make: MakeLinter, passed_over: PassedOver) -> Propose:
    """Returns a function that proposes the fixes of one file, those without a risk first.

    Each call of it fills `passed_over` anew with the findings whose fixes are all left out, and the reason.
    """

    def propose(contents: Mapping[str, bytes]) -> Iterator[Proposal]:
        passed_over.clear()
        linter = make(contents, True)
        linter.analyser.folds_causes = False
        analysed = linter.analyse(path)
        findings = linter.report(analysed).report.findings
        workspace = linter.analyser.workspaces.of(path)
        proposals = []
        for finding in findings:
            analysis = _analysis_of(finding, analysed.analyses)
            if analysis is None or not _is_wanted(finding, analysis, wanted):
                continue
            fixes = tuple(_applicable_fixes(finding, analysis))
            fix = _fix_to_try(fixes, wanted)
            if fix is None and finding.fixes:
                passed_over[identity(finding)] = (finding, _why_passed_over(finding, fixes, wanted))
            if fix is not None:
                proposals.append(Proposal(finding, fix, analysis, linter.analyser.reanalysis(analysis, workspace)))
        if wanted.plan and not wanted.rules:
            proposals += _without_verdict(linter, path, analysed.analyses, wanted.plan)
        yield from sorted(proposals, key=_risk)

    return propose


def _without_verdict(linter: Linter, path: str, analyses: Iterable[Analysis], number: int) -> Iterator[Proposal]:
    """Plan `number` of runs that have no verdict: `memlint plan` finds changes with which such a run fits in any case,
    and `check` says what is missing, without them."""
    for analysis in analyses:
        for found in analysis.found:
            if (
                not found.finding.rule.startswith(LAUNCHER_UNKNOWN)
                or analysis.estimates[found.run].verdict != "unknown"
            ):
                continue
            target = target_of(linter, path, analysis)
            planned = plans_of(target, found.run, PlanRequest(), target.hooks(())).options[number - 1 : number]
            for option in planned:
                yield Proposal(found.finding, fix_of(target.analysis, found.run, option), analysis, target.reanalyse)


def _analysis_of(finding: Finding, analyses: tuple[Analysis, ...]) -> Analysis | None:
    """The analysis that a finding comes from."""
    key = identity(finding)
    return next((item for item in analyses if key in map(identity, item.findings)), None)


def _is_wanted(finding: Finding, analysis: Analysis, wanted: FixRequest) -> bool:
    """Whether the finding is to be fixed. With `--plan N` and no `--rule`, only findings that plans resolve are."""
    if wanted.rules:
        return is_chosen(wanted.rules, (), finding.rule, finding.name)
    if not wanted.plan:
        return True
    mains = (main_finding(analysis, index) for index in range(len(analysis.runs)))
    return any(main is not None and identity(main.finding) == identity(finding) for main in mains)


def _risk(proposal: Proposal) -> tuple[bool, int, float]:
    """The sort key of fixes: those that leave the training result unchanged first, then by risk and step time."""
    fix = proposal.fix
    return not fix.safe, QUALITIES.index(fix.quality), fix.speed


def _applicable_fixes(finding: Finding, analysis: Analysis) -> Iterator[Fix]:
    """The planner's fixes of a finding; without any, the fixes that its rule defines and `check` shows.

    A rule's own fixes are taken in the state before `check` tested them, so that one that breaks a law is reported.
    """
    key = identity(finding)
    found = next(item for item in analysis.found if identity(item.finding) == key)
    shown = {fix.title: fix for fix in finding.fixes}
    for fix in finding.fixes if found.plan else found.finding.fixes:
        if fix.title in shown and not fix.partial:
            yield fix if fix.edits else fix._replace(note=shown[fix.title].note)


def _fix_to_try(fixes: tuple[Fix, ...], wanted: FixRequest) -> Fix | None:
    """The fix to try, None if none is allowed.

    With `--plan N` fix number N, safe or not: naming it is consent. Otherwise the first allowed fix that has edits;
    if none has, the first allowed one, which is then refused with a reason.
    """
    if wanted.plan:
        return next(iter(fixes[wanted.plan - 1 : wanted.plan]), None)
    allowed = [fix for fix in fixes if fix.safe or wanted.unsafe]
    return next(iter(sorted(allowed, key=lambda fix: not fix.edits)), None)


def _why_passed_over(finding: Finding, fixes: tuple[Fix, ...], wanted: FixRequest) -> str:
    """Why no fix of a finding is tried, though `check` shows some."""
    if not fixes:
        return f"no fix of it makes the run fit; the best one: {finding.fixes[0].title}"
    chosen = fixes[wanted.plan - 1 : wanted.plan] if wanted.plan else fixes
    if not chosen:
        return f"it has no fix {wanted.plan} that makes the run fit"
    shown = {fix.title: fix for fix in finding.fixes}  # already tested on the file: a fix that failed lost its edits
    if not any(shown[fix.title].edits for fix in chosen):
        first = shown[chosen[0].title]
        return f"{first.title}: {first.note or 'no edit of these files says it'}"
    return f"its fix may change the training result, `--unsafe` applies it: {chosen[0].title}"


def new_errors(paths: Sequence[str], fixed: FixedFiles, make: MakeLinter) -> Iterator[str]:
    """Messages about files with a new error, caused by a fix of another file that shares a companion with them."""
    old, new = make(fixed.before, False), make(fixed.contents, False)
    for path in paths:
        before = {identity(item) for item in old.report_file(path).findings}
        for item in new.report_file(path).findings:
            if item.severity == SEVERITIES[-1] and identity(item) not in before:
                yield f"{path} would get a new error ({item.rule}: {item.message})"


def parser_disagreements(before: Mapping[str, bytes], changed: Mapping[str, bytes]) -> Iterator[str]:
    """Why a second parser disagrees with the changed files: ruamel.yaml for YAML, bash for scripts."""
    texts = {path: new for path, new in changed.items() if path.endswith((".yaml", ".yml"))}
    if texts:
        from memlint.fixes.edits.second_opinion import disagreements

        for path, new in texts.items():
            yield from (f"{path}: {reason}" for reason in disagreements(before[path], new))
    scripts = {path: new for path, new in changed.items() if path.endswith(SHELL)}
    if scripts:
        from memlint.fixes.edits.shell_opinion import shell_disagreements

        for path, new in scripts.items():
            yield from (f"{path}: {reason}" for reason in shell_disagreements(before[path], new))
