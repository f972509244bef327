"""Keeps the linter of a session between edits, so that rules, settings and the repository are read once.

Everything here runs on the one thread of schedule.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping

import memlint.settings.files as settings_files
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.lint.analyse_file import FileAnalyser
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest
from memlint.lsp.schedule import Superseded
from memlint.memory.values import Estimate
from memlint.report.model import FileReport
from memlint.repository.programs import PYTHON
from memlint.ruleset.engine import Analysis, Engine, Reanalyse
from memlint.run import Run
from memlint.source.document import Document


class CheckedFile(NamedTuple):
    """The result of checking one file. `mistake`: why its settings cannot be used. `seconds`: duration of the check."""

    path: str
    report: FileReport
    analyses: tuple[Analysis, ...] = ()
    mistake: str = ""
    seconds: float = 0.0

    def reads(self, path: str) -> bool:
        """Whether the result depends, or may depend, on the file at `path`."""
        if path.endswith(PYTHON) and any(one.format is None or one.document.start for one in self.analyses):
            return True  # a script that the analysis may have followed
        return path in self._parts()

    def _parts(self) -> set[str]:
        found = {self.path, *(item.location.path for item in self.report.findings)}
        for analysis in self.analyses:
            found |= {part.path for part in documents_of(analysis)}
            for run in analysis.runs:
                found |= {*run.related, *(origin.path for origin in run.origins.values())}
        return found


class EditorSession:
    """`unsaved`: contents of edited documents, by real path. `superseded()`: whether the running job should end."""

    def __init__(self, unsaved: Mapping[str, bytes], superseded: Callable[[], bool]) -> None:
        self._unsaved = unsaved
        self._superseded = superseded
        self._linter: Linter | None = None
        self._request: LintRequest | None = None
        self._engines: dict[int, tuple[Engine, Engine]] = {}
        self._changed: set[str] = set()

    def configure(self, request: LintRequest) -> None:
        """Makes the next job use `request` and read settings, rules and the repository again."""
        self._request, self._linter = request, None

    def changed(self, path: str) -> None:
        """Notes that the file at `path` has changed. May be called from any thread."""
        self._changed.add(path)

    def check(self, path: str) -> CheckedFile:
        """The findings of a file, without fixes, and its runs."""
        start = time.perf_counter()
        try:
            linter = self.linter()
            if linter.settings.of(path).excluded:
                return CheckedFile(path, FileReport(path, "", ()))
            analysed = linter.analyse(path, named=False)
            report = linter.report(analysed).report
        except UsageError as error:
            return CheckedFile(path, FileReport(path, "", ()), mistake=str(error))
        return CheckedFile(path, report, analysed.analyses, seconds=time.perf_counter() - start)

    def with_fixes(self, path: str) -> FileReport:
        """The report of a file with the fixes of its findings. Raises UsageError, Superseded."""
        linter = self.linter()
        return linter.report(self._interruptible(linter).analyse(path, named=False, fixes=True)).report

    def reanalysis(self, analysis: Analysis) -> Reanalyse:
        """A function that analyses a document again with changed contents of files. It raises Superseded."""
        analyser = self._interruptible(self.linter())
        return analyser.reanalysis(analysis, analyser.workspaces.of(analysis.document.path))

    def linter(self) -> Linter:
        """The linter, up to date with all changes since the last call. Raises UsageError."""
        if self._linter is None:
            assert self._request is not None
            settings_files.forget()
            self._engines.clear()
            self._changed.clear()
            self._linter = Linter(self._request, unsaved=self._unsaved)
        while self._changed:
            self._linter.analyser.workspaces.forget(self._changed.pop())
        return self._linter

    def _interruptible(self, linter: Linter) -> FileAnalyser:
        """The linter's analyser, made to end early (Superseded) when an edit makes its answer useless."""
        own = linter.analyser
        return FileAnalyser(
            own.workspaces,
            lambda path: self._interruptible_engine(linter.rules.engine_for(path)),
            own.context_for,
            lambda path: self._interruptible_engine(linter.rules.judge_for(path)),
            own.keys_for,
        )

    def _interruptible_engine(self, engine: Engine) -> Engine:
        if id(engine) not in self._engines:

            def estimate(run: Run) -> Estimate:
                if self._superseded():
                    raise Superseded
                return engine.estimator(run)

            self._engines[id(engine)] = engine, Engine(engine.rules, estimate)
        return self._engines[id(engine)][1]


def documents_of(analysis: Analysis) -> tuple[Document, ...]:
    """The analysed document and those that take part in its runs."""
    return (analysis.document, *(analysis.parsed.documents if analysis.parsed else ()))


def dependents(changed: str, known: Iterable[CheckedFile]) -> Iterator[str]:
    """The other files whose findings may depend on the file at `changed`."""
    return (one.path for one in known if one.path != changed and one.reads(changed))
