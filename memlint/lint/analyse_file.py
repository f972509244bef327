"""Analyses one file: reads it, recognises its format, estimates its runs, applies the rules and adds fixes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.findings import SEVERITIES, Finding, Location
from memlint.formats.base import Context
from memlint.lint.projects import Workspaces
from memlint.repository.workspace import Workspace
from memlint.ruleset.engine import Analysis, Engine, Judged, Reanalyse
from memlint.ruleset.found import Found, folded, without_fixes_of_causes
from memlint.source.document import Document

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memlint.repository.declared_keys import DeclaredKeys

UNREADABLE = "SRC000"
CONFIGS = (".yaml", ".yml", ".json", ".toml")  # suffixes of files that a script of the repository may read
# Keys that only training configs have. A file that does not parse gets a finding only if its text has one of them.
_TRAINING_KEY = (
    r"(?m)^\s*\"?(per_device_train_batch_size|model_name_or_path|zero_optimization|finetuning_type|gradient_accumulation_steps"
    r"|train_micro_batch_size_per_gpu|fsdp_config|lora_rank|cutoff_len)\"?\s*:"
)


class FileAnalysis(NamedTuple):
    """The analyses of a file (one per document) and its findings, before suppressions."""

    path: str
    analyses: tuple[Analysis, ...]
    findings: tuple[Finding, ...]
    readable: bool = True
    hides_its_run: bool = False  # the user named a Python file that may train, and its code shows no run

    @property
    def format(self) -> str:
        names = [analysis.format.NAME for analysis in self.analyses if analysis.format is not None]
        return names[0] if names else ""


class FileAnalyser:
    """Analyses files.

    `engine_for`: returns the engine with the rules in force for a path. `context_for`: returns the context of a
    document, that is the facts that its text does not state (GPU, number of GPUs, versions). `judge_for`: returns the
    engine that judges plans (default: `engine_for`). `keys_for`: returns what the settings declare about the meaning of
    a file's own keys (setting `keys`), None if nothing.
    """

    def __init__(
        self,
        workspaces: Workspaces,
        engine_for: Callable[[str], Engine],
        context_for: Callable[[Document, Workspace], Context],
        judge_for: Callable[[str], Engine] | None = None,
        keys_for: Callable[[str], DeclaredKeys | None] = lambda _: None,
    ) -> None:
        # Whether a finding that is the cause of another one is shown as a part of it (False: on its own, with fixes).
        self.folds_causes = True
        self.workspaces = workspaces
        self.engine_for = engine_for
        self.context_for = context_for
        self.judge_for = judge_for or engine_for
        self.keys_for = keys_for

    def analyse(self, path: str, named: bool = True, fixes: bool = True, first_fix: bool = False) -> FileAnalysis:
        """Analyses the file at `path`. A file that cannot be read, or a crash in a rule, becomes a finding.

        `named`: the user named this very file, so its syntax errors are reported even if no format recognises it.
        `first_fix`: keep only the first fix of each finding.
        """
        workspace = self.workspaces.of(path)
        try:
            documents = self._documents(path, workspace)
        except OSError as error:
            return FileAnalysis(path, (), (unreadable(path, error.strerror or str(error)),), readable=False)
        analyses = tuple(self.analyse_document(document, workspace) for document in documents)
        if _is_read_by_script(analyses):
            runs = workspace.config_runs(path)
            analyses = tuple(self.analyse_document(document, workspace) for document in runs) or analyses
        if not fixes:
            analyses = tuple(map(self._with_figures, analyses))
        findings: list[Finding] = []
        for analysis in analyses:
            if analysis.format is not None or named or _may_be_training_config(analysis.document):
                pairs = self._fixed(analysis, workspace, first_fix) if fixes else analysis.found
                shown = folded(self.engine_for(path).folds_into, pairs) if self.folds_causes else pairs
                findings.extend(item.finding for item in shown)
        hides_its_run = named and not analyses and workspace.hides_its_run(path)
        return FileAnalysis(path, analyses, tuple(findings), hides_its_run=hides_its_run)

    def _documents(self, path: str, workspace: Workspace) -> tuple[Document, ...]:
        keys = self.keys_for(path) if path.endswith(CONFIGS) else None
        return workspace.documents(path) if keys is None else (workspace.declared_run(path, keys),)

    def analyse_document(self, document: Document, workspace: Workspace, fixes: bool = True) -> Analysis:
        """Analyses one document. `fixes`: whether findings carry the fixes that their rules define."""
        engine = self.engine_for(document.path)
        return engine.analyse(document, self.context_for(document, workspace), fixes=fixes)

    def _with_figures(self, analysis: Analysis) -> Analysis:
        """The analysis with what its runs need after each fix that a rule defines, where none is tried: a fix that is
        gets its figure from the changed files (`rule_patches`)."""
        if not any(found.finding.fixes for found in analysis.found):
            return analysis
        from memlint.ruleset.rule_fixes import figured  # late: only where something is found

        estimator = self.engine_for(analysis.document.path).estimator
        done = []
        try:
            for found in analysis.found:
                if found.run >= 0 and found.finding.fixes:
                    run, estimated = analysis.runs[found.run], analysis.estimated[found.run]
                    fixes = tuple(figured(found.finding.fixes, run, estimated, estimator))
                    found = found._replace(finding=found.finding._replace(fixes=fixes))
                done.append(found)
        except Exception as error:
            return _without_fixes(analysis, error)
        return analysis._replace(found=tuple(done))

    def _fixed(self, analysis: Analysis, workspace: Workspace, first_alone: bool) -> tuple[Found, ...]:
        """What was found, with its fixes. A crash in the search for them leaves the findings."""
        try:
            findings = self.with_fixes(analysis, workspace, first_alone)
        except UsageError:
            raise
        except Exception as error:
            return _without_fixes(analysis, error).found
        return tuple(item._replace(finding=finding) for item, finding in zip(analysis.found, findings))

    def with_fixes(self, analysis: Analysis, workspace: Workspace, first_alone: bool = False) -> tuple[Finding, ...]:
        """The findings with their fixes. A fix is dropped if the changed file, analysed again, still has the finding.

        `first_alone`: keep only the first fix of each finding, and none of findings that are folded into another one.
        """
        if first_alone and self.folds_causes:
            into = self.engine_for(analysis.document.path).folds_into
            analysis = analysis._replace(found=without_fixes_of_causes(into, analysis.found))
        if not any(found.plan or found.finding.fixes for found in analysis.found):
            return analysis.findings
        estimator, reanalyse = self.engine_for(analysis.document.path).estimator, self.reanalysis(analysis, workspace)
        if not any(found.plan for found in analysis.found):
            from memlint.fixes.rule_patches import with_patches  # only if a finding has a fix

            return with_patches(analysis, estimator, reanalyse, first_alone)
        from memlint.fixes.attach import with_plans  # the planner: only if a finding needs it

        return with_plans(analysis, estimator, reanalyse, self.judged(analysis, workspace), first_alone)

    def judged(self, analysis: Analysis, workspace: Workspace) -> Judged:
        """The analysis under every rule, and a function that repeats it for changed files under the rules that judge
        plans: a new error speaks against a plan, and so does a finding as severe as the one that the plan solves.
        """
        judge = self.judge_for(analysis.document.path)
        if judge is not self.engine_for(analysis.document.path):
            analysis = self._analyse_changed(judge, analysis, None, workspace, {})
        solved = {found.finding.severity for found in analysis.found if found.plan}
        judge = judge.at_least(min(solved, default="error", key=SEVERITIES.index))
        return Judged(analysis, partial(self._analyse_changed, judge, analysis, analysis, workspace))

    def reanalysis(self, analysis: Analysis, workspace: Workspace) -> Reanalyse:
        """A function that analyses the same document again after changes: it takes new contents of files by path."""
        engine = self.engine_for(analysis.document.path)
        return partial(self._analyse_changed, engine, analysis, analysis, workspace)

    def _analyse_changed(
        self,
        engine: Engine,
        analysis: Analysis,
        before: Analysis | None,
        workspace: Workspace,
        contents: Mapping[str, bytes],
    ) -> Analysis:
        changed = workspace.overlaid(contents)
        again = self._corresponding_document(analysis.document, changed)
        # fixes=False: only the findings and estimates of a changed file are used.
        return engine.analyse(again, self.context_for(again, changed), fixes=False, before=before)

    def _corresponding_document(self, document: Document, changed: Workspace) -> Document:
        """The document in the changed files that corresponds to `document`."""
        is_own = document.syntax == "python" and document.path.endswith(CONFIGS)
        is_inferred = is_own and self.keys_for(document.path) is None
        found = changed.config_runs(document.path) if is_inferred else self._documents(document.path, changed)
        if not found and document.start is not None:
            # The program names the config as a default of its own, and was linted itself: no config's reader is known.
            found = self._documents(document.start.program.entry, changed)
        return next((one for one in found if one.index == document.index), found[0])


def _without_fixes(analysis: Analysis, error: Exception) -> Analysis:
    """The analysis without fixes, and with a finding about the crash that was the reason."""
    from memlint.ruleset.internal_error import internal_error  # where something has failed

    place = Location(analysis.document.path, 1, 1, 1, 1)
    crash = Found(internal_error(place, error, "while it looked for fixes"))
    found = (item._replace(finding=item.finding._replace(fixes=())) for item in analysis.found)
    return analysis._replace(found=(crash, *found))


def _is_read_by_script(analyses: Sequence[Analysis]) -> bool:
    """Whether only a script defines what the file's keys mean: no format knows them, or a script reads the file with
    code of its own instead of the framework's parser, or adds to the model what no key says."""
    if any(analysis.document.start is not None for analysis in analyses):
        return False
    is_known = any(analysis.format is not None or analysis.document.problems for analysis in analyses)
    return not is_known or any(
        analysis.is_unjudged or (analysis.parsed is not None and analysis.parsed.completed_by) for analysis in analyses
    )


def unreadable(path: str, reason: str) -> Finding:
    """The finding about a file that cannot be read."""
    place = Location(path, 1, 1, 1, 1)
    return Finding(UNREADABLE, "source/unreadable", "error", f"cannot be read: {reason}", place, key=UNREADABLE)


def _may_be_training_config(document: Document) -> bool:
    """Whether an unrecognised file with syntax errors has keys of a training config in its text.

    Notebooks need no such key: problems are recorded only for notebooks that train.
    """
    if document.problems and document.path.endswith(".ipynb"):
        return True
    if any(problem.code == "custom-tag" and "!!python/" in problem.message for problem in document.problems):
        return False  # the objects of a program, as yaml.dump wrote them
    return bool(document.problems) and re.search(_TRAINING_KEY, document.text) is not None


def uniform_analyser(
    engine: Engine, facts: Mapping[str, Any], cwd: str = "", workspace: Workspace | None = None
) -> FileAnalyser:
    """An analyser with one engine and the same `facts` (fields of `Context`) for every file, and without settings."""
    return FileAnalyser(
        Workspaces(cwd, only=workspace), lambda path: engine, lambda document, files: files.context(**facts)
    )
