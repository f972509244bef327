"""One file after the other to reports: what `check`, `estimate`, `fix` and the others share."""

from __future__ import annotations

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
from memlint.repository.workspace import Workspace
from memlint.ruleset.engine import internal_error


class Linter:
    """Made once an invocation: rules are read once, settings once a folder.

    `workspace` and `read_settings` stand for the files on disk: another commit's, for example.
    """

    def __init__(
        self, request: LintRequest, workspace: Workspace | None = None, read_settings: ReadSettings | None = None
    ) -> None:
        load_plugins(request.plugins)  # a worker may be a fresh process
        facts = request.facts
        self.request = request
        self.settings = SettingsLookup(request, read_settings)
        self.rules = RuleCatalog(request, self.settings)
        workspaces = Workspaces(request.cwd, facts.hub, facts.exact, dict(request.contents), workspace)
        self.analyser = FileAnalyser(
            workspaces, self.rules.engine_for, ContextFacts(facts, self.settings.written).context_for
        )
        self._reporter = FileReporter(request, self.settings, self.rules, workspaces)

    def analyse(self, path: str, named: bool = True) -> FileAnalysis:
        """Everything there is to say about one file, before suppressions."""
        return self.analyser.analyse(path, named, self.request.fixes)

    def report(self, analysed: FileAnalysis) -> LintedFile:
        """What suppressions and the choice of rules leave of it."""
        return self._reporter.report(analysed)

    def report_file(self, path: str, named: bool = True) -> FileReport:
        """One file's findings after suppressions, and its runs."""
        return self.lint_file(path, named).report

    def lint_file(self, path: str, named: bool = True) -> LintedFile:
        """The same with what suppressions in settings did. A crash is a finding on the file. Raises UsageError."""
        try:
            return self.report(self.analyse(path, named))
        except UsageError:
            raise
        except Exception as error:
            place = Location(path, 1, 1, 1, 1)
            return LintedFile(FileReport(path, "", (internal_error(place, error, "on this file"),), ()))
