"""Makes the report of a file from its analysis: applies suppressions, rule selection and severities of settings."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from functools import partial

import memlint.file_access as file_access
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.findings import Finding
from memlint.formats.base import MissingFile
from memlint.lint.analyse_file import FileAnalysis
from memlint.lint.projects import Workspaces
from memlint.lint.request import LintRequest
from memlint.lint.rule_catalog import RuleCatalog
from memlint.lint.rule_selection import place_of
from memlint.lint.select_files import display_path
from memlint.lint.settings_lookup import SettingsLookup
from memlint.lint.summary import none_if_unknown, run_report
from memlint.lint.suppress import Suppressed, suppress
from memlint.memory.values import Estimate
from memlint.report.model import FileReport, RunReport, location_key, stopping_rules
from memlint.rule_selectors import is_chosen
from memlint.ruleset.engine import Analysis
from memlint.run import Run
from memlint.settings import FileSettings, severity_of
from memlint.source.suffixes import SHELL
from memlint.suppressions.waiver import Waiver

_SCRIPT_NAME = rf"[\w.-]+(?:{'|'.join(map(re.escape, SHELL))})\b"  # compiled where a script has findings
_MEGATRON = frozenset(("tensor_model_parallel_size", "num_layers", "hidden_size"))


class LintedFile(NamedTuple):
    """A file's report, and the waivers (suppressions in settings) that apply to it.

    `used`: the waivers that suppressed a finding. `require_reason`: whether its settings require a reason for each.
    """

    report: FileReport
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()
    require_reason: bool = False


class FileReporter:
    """Makes reports with the settings and rules that apply to each file."""

    def __init__(
        self, request: LintRequest, settings: SettingsLookup, rules: RuleCatalog, workspaces: Workspaces
    ) -> None:
        self._request = request
        self._settings = settings
        self._rules = rules
        self._workspaces = workspaces

    def report(self, analysed: FileAnalysis) -> LintedFile:
        """The report of an analysis, after suppressions and rule selection. Raises UsageError."""
        settings = self._settings.of(analysed.path)
        self._refuse_missing(analysed.path, settings)
        if self._request.keeps_suppressed:
            remaining = Suppressed(analysed.findings)
        else:
            known, in_force = self._rules.known_names, self._rules.names_in_force
            remaining = suppress(
                analysed, self._settings.of, partial(known, settings), partial(in_force, settings), self._can_name
            )
        findings = tuple(sorted(_with_settings_severity(remaining.findings, settings), key=location_key))
        alone = self._request.findings_alone
        runs = (
            _run_report(run, estimated.whole, self._request)._replace(stopped_by=stopped)
            for analysis in analysed.analyses
            for stopped in (stopping_rules(_of_analysis(analysis, findings)),)
            for run, estimated in zip(analysis.runs, analysis.estimated)
            if not alone or run.path != analysed.path  # merge_reports orders files by the runs of other files
        )
        report = FileReport(
            analysed.path,
            analysed.format,
            findings,
            tuple(runs),
            remaining.suppressed,
            texts={} if alone else _excerpted_texts(analysed, findings),
            readable=analysed.readable,
            commanded=tuple(dict.fromkeys(_commands(analysed))),
            trains=tuple(
                (none_if_unknown(run.model.name), run.purpose) for one in analysed.analyses for run in one.runs
            ),
            starts=tuple(dict.fromkeys(_started_configs(analysed))),
            unread=tuple(dict.fromkeys(_unread_programs(analysed))),
            calls=tuple(_calls(analysed, findings)),
            hides_its_run=analysed.hides_its_run,
        )
        if self._request.keeps_suppressed:
            return LintedFile(report)
        return LintedFile(report, settings.waivers, remaining.used, settings.require_reason)

    def _can_name(self, name: str, path: str) -> bool:
        """Whether the file at `path` can name `name` as its companion."""
        found = self._workspaces.of(path).context().read(name, path)
        return not isinstance(found, MissingFile) or found.code == "cyclic"  # cyclic: the companion itself is checked

    def _refuse_missing(self, path: str, settings: FileSettings) -> None:
        """Raises UsageError for a file or folder that settings name and that does not exist.

        Settings of another commit are not checked: the working tree may no longer have what they name.
        """
        if not self._settings.is_on_disk:
            return
        missing = [("rules_dirs", name) for name in settings.rules_dirs if not file_access.is_folder(name)]
        missing += [("companions", name) for name in settings.companions if not self._can_name(name, path)]
        for key, name in missing:
            setting = "with" if key == "companions" else key
            raise UsageError(f"{place_of(settings, key)}`{setting}`: {display_path(name)} is not there")


def _of_analysis(analysis: Analysis, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Those of a file's findings that are about one of its documents: a script's command does not stop the others."""
    own = {(item.rule, item.location) for item in analysis.findings}
    return (item for item in findings if (item.rule, item.location) in own)


def _commands(analysed: FileAnalysis) -> Iterator[str]:
    """The places of the commands that start the runs of a Python file."""
    for analysis in analysed.analyses:
        start = analysis.document.start
        if start is not None and start.values.commanded_at and analysis.document.path == analysed.path:
            yield start.values.commanded_at


def _started_configs(analysed: FileAnalysis) -> Iterator[str]:
    """The configs that a script's commands start as they stand."""
    for analysis in analysed.analyses:
        start = analysis.document.start
        if start is not None and start.values.config and analysis.document.path == analysed.path:
            yield start.values.config


def _unread_programs(analysed: FileAnalysis) -> Iterator[str]:
    """The programs that a script's commands start and that no format reads."""
    for analysis in analysed.analyses:
        start, value = analysis.document.start, analysis.document.value
        if start is None or analysis.format is not None or not start.program.entry:
            continue
        with_arguments = " with Megatron-LM's arguments" if _MEGATRON.issubset(value or ()) else ""
        yield f"`{posixpath.normpath(start.program.entry)}`{with_arguments}"


def _calls(analysed: FileAnalysis, findings: Iterable[Finding]) -> Iterator[tuple[int, str]]:
    """The lines of a script, among those with findings, that name another script, with that script's name."""
    if not analysed.path.endswith(SHELL) or not analysed.analyses:
        return
    lines = analysed.analyses[0].document.text.splitlines()
    told = {item.location.line for item in findings if item.location.path == analysed.path}
    for line in sorted(told):
        names = re.findall(_SCRIPT_NAME, lines[line - 1]) if line <= len(lines) else ()
        yield from ((line, name) for name in dict.fromkeys(names))


def _run_report(run: Run, estimate: Estimate, request: LintRequest) -> RunReport:
    report = run_report(run, estimate, request.assumptions)
    if not request.what_if:
        return report
    from memlint.lint.what_if import what_if  # only HTML pages have a grid

    return report._replace(what_if=what_if(run, request.what_if))


def _with_settings_severity(findings: tuple[Finding, ...], settings: FileSettings) -> Iterator[Finding]:
    """The findings of the selected rules, with the severities that settings assign."""
    for item in findings:
        severity = severity_of(settings, item.rule, item.name)
        if severity != "off" and is_chosen(settings.select, settings.ignore, item.rule, item.name):
            yield item._replace(severity=severity) if severity else item


def _excerpted_texts(analysed: FileAnalysis, findings: tuple[Finding, ...]) -> dict[str, str]:
    """The texts of the files that findings quote, by path."""
    excerpted = {item.location.path for item in findings}
    excerpted |= {place.path for item in findings for place, _ in item.related}
    documents = [analysis.document for analysis in analysed.analyses]
    documents += [part for analysis in analysed.analyses if analysis.parsed for part in analysis.parsed.documents]
    return {document.path: document.text for document in documents if document.path in excerpted}
