"""One file to its analyses and findings: read, recognised, estimated, judged, with fixes where some are wanted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from memlint._record import NamedTuple
from memlint.findings import Finding, Location
from memlint.formats.base import Context
from memlint.lint.projects import Workspaces
from memlint.repository.workspace import Workspace
from memlint.ruleset.engine import Analysis, Engine
from memlint.source.document import Document

if TYPE_CHECKING:
    from memlint.fixes.attempt import Reanalyse

UNREADABLE = "SRC000"
# Keys that only a training config has: what makes a file that does not parse worth a finding.
_TRAINING_KEY = (
    r"(?m)^\s*\"?(per_device_train_batch_size|model_name_or_path|zero_optimization|finetuning_type|gradient_accumulation_steps"
    r"|train_micro_batch_size_per_gpu|fsdp_config|lora_rank|cutoff_len)\"?\s*:"
)


class FileAnalysis(NamedTuple):
    """One file: its analyses (one a document) and its findings, before suppressions."""

    path: str
    analyses: tuple[Analysis, ...]
    findings: tuple[Finding, ...]
    readable: bool = True

    @property
    def format(self) -> str:
        names = [analysis.format.NAME for analysis in self.analyses if analysis.format is not None]
        return names[0] if names else ""


class FileAnalyser:
    """`engine_for`: the rules in force for a path; `context_for`: what is known of a document besides its text."""

    def __init__(
        self,
        workspaces: Workspaces,
        engine_for: Callable[[str], Engine],
        context_for: Callable[[Document, Workspace], Context],
    ) -> None:
        self.workspaces = workspaces
        self.engine_for = engine_for
        self.context_for = context_for

    def analyse(self, path: str, named: bool = True, fixes: bool = True) -> FileAnalysis:
        """Everything there is to say about one file. A file that cannot be read is a finding, and so is a crash.

        `named`: somebody asked for this very file, so that what is wrong with its syntax is said in any case.
        """
        workspace = self.workspaces.of(path)
        try:
            documents = workspace.documents(path)
        except OSError as error:
            return FileAnalysis(path, (), (unreadable(path, error.strerror or str(error)),), readable=False)
        analyses = tuple(self.analyse_document(document, workspace) for document in documents)
        findings: list[Finding] = []
        for analysis in analyses:
            if analysis.format is not None or named or _may_be_training_config(analysis.document):
                findings.extend(self.with_fixes(analysis, workspace) if fixes else analysis.findings)
        return FileAnalysis(path, analyses, tuple(findings))

    def analyse_document(self, document: Document, workspace: Workspace, fixes: bool = True) -> Analysis:
        """`fixes`: whether findings carry the fixes that their rules write themselves."""
        engine = self.engine_for(document.path)
        return engine.analyse(document, self.context_for(document, workspace), fixes=fixes)

    def with_fixes(self, analysis: Analysis, workspace: Workspace) -> tuple[Finding, ...]:
        """The findings, each with the fixes that hold when the changed files are read again."""
        if not any(found.plan or found.finding.fixes for found in analysis.found):
            return analysis.findings
        from memlint.fixes.attach import with_plans  # the planner: only where a finding wants a fix

        estimator = self.engine_for(analysis.document.path).estimator
        return with_plans(analysis, estimator, self.reanalysis(analysis, workspace))

    def reanalysis(self, analysis: Analysis, workspace: Workspace) -> Reanalyse:
        """A function that analyses the same document under other contents of files."""
        return partial(self._analyse_changed, analysis.document, workspace)

    def _analyse_changed(self, document: Document, workspace: Workspace, contents: Mapping[str, bytes]) -> Analysis:
        changed = workspace.overlaid(contents)
        # Without fixes: what is asked of a changed file are its findings and estimates alone.
        return self.analyse_document(changed.documents(document.path)[document.index], changed, fixes=False)


def unreadable(path: str, reason: str) -> Finding:
    place = Location(path, 1, 1, 1, 1)
    return Finding(UNREADABLE, "source/unreadable", "error", f"cannot be read: {reason}", place, key=UNREADABLE)


def _may_be_training_config(document: Document) -> bool:
    """Whether a broken file that no format claims has a training config's keys in its text."""
    return bool(document.problems) and re.search(_TRAINING_KEY, document.text) is not None


def uniform_analyser(
    engine: Engine, facts: Mapping[str, Any], cwd: str = "", workspace: Workspace | None = None
) -> FileAnalyser:
    """One engine and the same `facts` (fields of `Context`) for every file, no settings: what an experiment needs."""
    return FileAnalyser(
        Workspaces(cwd, only=workspace), lambda path: engine, lambda document, files: files.context(**facts)
    )
