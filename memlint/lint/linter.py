"""The linter: analyses files one by one and makes their reports. All verbs use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Union

from memlint.errors import UsageError
from memlint.findings import Location
from memlint.lint.analyse_file import FileAnalyser, FileAnalysis
from memlint.lint.context_facts import ContextFacts
from memlint.lint.plugin_choice import load_plugins
from memlint.lint.projects import Workspaces
from memlint.lint.report_file import FileReporter, LintedFile
from memlint.lint.request import LintRequest
from memlint.lint.rule_catalog import RuleCatalog
from memlint.lint.settings_lookup import ReadSettings, SettingsLookup
from memlint.report.model import FileReport
from memlint.repository.files.discovery import FoundFile
from memlint.repository.workspace import Workspace

Outcome = Union[LintedFile, UsageError]  # a file's report, or what is wrong with its settings


class Linter:
    """Analyses files and makes their reports. Made once per invocation, so that rules and settings are read once.

    `workspace` and `read_settings` replace the files on disk, for example by those of another commit. `unsaved`: the
    contents of an editor's buffers, by real path. `like`: an earlier linter of this process; its rules are reused,
    while files and settings are read again.
    """

    def __init__(
        self,
        request: LintRequest,
        workspace: Workspace | None = None,
        read_settings: ReadSettings | None = None,
        like: Linter | None = None,
        unsaved: Mapping[str, bytes] | None = None,
    ) -> None:
        load_plugins(request.plugins)  # again in each worker: a spawned process has loaded none
        facts = request.facts
        self.request = request
        self.settings = SettingsLookup(request, read_settings)
        self.rules: RuleCatalog = RuleCatalog(request, self.settings, like.rules if like else None)
        workspaces = Workspaces(request.cwd, facts.hub, facts.exact, dict(request.contents), workspace, unsaved)
        self.analyser = FileAnalyser(
            workspaces,
            self.rules.engine_for,
            ContextFacts(facts, self.settings.from_files).context_for,
            self.rules.judge_for,
            lambda path: self.settings.from_files(path).keys,
        )
        self._reporter = FileReporter(request, self.settings, self.rules, workspaces)

    def analyse(self, path: str, named: bool = True) -> FileAnalysis:
        """The analysis of one file, before suppressions."""
        return self.analyser.analyse(path, named, self.request.fixes, self.request.first_fix)

    def report(self, analysed: FileAnalysis) -> LintedFile:
        """The report of an analysis, after suppressions and rule selection."""
        return self._reporter.report(analysed)

    def report_file(self, path: str, named: bool = True) -> FileReport:
        """The report of one file: its findings after suppressions, and its runs."""
        return self.lint_file(path, named).report

    def lint_file(self, path: str, named: bool = True) -> LintedFile:
        """The report of one file, with its waivers and which of them were used.

        A crash becomes a finding on the file. Raises UsageError.
        """
        try:
            return self.report(self.analyse(path, named))
        except UsageError:
            raise
        except Exception as error:
            from memlint.ruleset.internal_error import internal_error  # where something has failed

            place = Location(path, 1, 1, 1, 1)
            return LintedFile(FileReport(path, "", (internal_error(place, error, "on this file"),), ()))

    def outcome(self, item: FoundFile) -> Outcome:
        """The report of a file whose turn to be reported may come later."""
        try:
            return self.lint_file(item.path, item.named)
        except UsageError as error:
            return error


def unless_error(found: Outcome) -> LintedFile:
    """The report of a file whose turn has come. Raises the UsageError that came in its place."""
    if isinstance(found, UsageError):
        raise found
    return found
