"""One invocation's view of the files: which projects they belong to, what is known beside them, what each one says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from memlint._record import NamedTuple
from memlint.findings import Finding, Location
from memlint.formats.base import Context
from memlint.repository.upward import upward
from memlint.repository.workspace import Workspace, on_disk
from memlint.ruleset.engine import Analysis, Engine
from memlint.source.document import Document

if TYPE_CHECKING:
    from memlint.fixes.attempt import Reanalyse

UNREADABLE = "SRC000"
# Keys that only a training config has: what makes a file that does not parse worth a finding.
_TELLTALE = re.compile(
    r"^\s*\"?(per_device_train_batch_size|model_name_or_path|zero_optimization|finetuning_type|gradient_accumulation_steps"
    r"|train_micro_batch_size_per_gpu|fsdp_config|lora_rank|cutoff_len)\"?\s*:",
    re.MULTILINE,
)

# What is known of one document besides its text: fields of `Context`.
FactsOf = Callable[[Document, Workspace], Mapping[str, Any]]


class Outcome(NamedTuple):
    """One file: its analyses (one a document) and its findings, before anything is hidden."""

    path: str
    analyses: tuple[Analysis, ...]
    findings: tuple[Finding, ...]
    readable: bool = True

    @property
    def format(self) -> str:
        names = [analysis.format.NAME for analysis in self.analyses if analysis.format is not None]
        return names[0] if names else ""


class Session:
    """Files below the repository of `cwd` are one project; a path outside of it is a project of its own.

    `contents`: bytes that stand for what is on disk, by path (standard input). `workspace`: the one of every path.
    """

    def __init__(
        self,
        engine_of: Callable[[str], Engine],
        facts_of: FactsOf,
        roots: Sequence[str] = (),
        cwd: str = "",
        hub: bool = False,
        contents: Mapping[str, bytes] | None = None,
        workspace: Workspace | None = None,
        exact: bool = False,
    ) -> None:
        self.engine_of = engine_of
        self.facts_of = facts_of
        self.cwd = os.path.realpath(cwd or os.getcwd())
        self.roots = tuple(os.path.realpath(root) for root in roots if os.path.isdir(root))
        self._hub = hub
        self._exact = exact
        self._contents = contents or {}
        self._only = workspace
        self._workspaces: dict[str, Workspace] = {}
        self._root_of: dict[str, str] = {}

    def workspace(self, path: str) -> Workspace:
        """The workspace of the project that `path` belongs to."""
        if self._only is not None:
            return self._only
        folder = real_folder(os.path.join(self.cwd, path))
        if folder not in self._root_of:
            self._root_of[folder] = project_root(folder, self.cwd)
        root = self._root_of[folder]
        if root not in self._workspaces:
            workspace = on_disk(root, self.cwd, hub=self._hub, exact=self._exact)
            self._workspaces[root] = workspace.overlaid(self._contents) if self._contents else workspace
        return self._workspaces[root]

    def lint(self, path: str, named: bool = True, fixes: bool = True) -> Outcome:
        """Everything there is to say about one file. A file that cannot be read is a finding, and so is a crash."""
        workspace = self.workspace(path)
        try:
            documents = workspace.documents(path)
        except OSError as error:
            return Outcome(path, (), (unreadable(path, error.strerror or str(error)),), readable=False)
        analyses = [
            self.engine_of(document.path).analyse(document, self.context(document, workspace)) for document in documents
        ]
        found: list[Finding] = []
        for analysis in analyses:
            if analysis.format is not None or named or _concerns_us(analysis.document):
                found.extend(self.planned(analysis, workspace) if fixes else analysis.findings)
        return Outcome(path, tuple(analyses), tuple(found))

    def context(self, document: Document, workspace: Workspace) -> Context:
        facts = dict(self.facts_of(document, workspace))
        find_model = facts.pop("find_model", workspace.find_model)
        return workspace.context(**facts)._replace(find_model=find_model)

    def planned(self, analysis: Analysis, workspace: Workspace) -> tuple[Finding, ...]:
        if not any(found.plan or found.finding.fixes for found in analysis.found):
            return analysis.findings
        from memlint.fixes.attach import with_plans

        return with_plans(analysis, self.engine_of(analysis.document.path).estimator, self.again(analysis, workspace))

    def again(self, analysis: Analysis, workspace: Workspace) -> Reanalyse:
        """The same file under other contents."""
        document = analysis.document

        def reanalyse(contents: Mapping[str, bytes]) -> Analysis:
            other = workspace.overlaid(contents)
            changed = other.documents(document.path)[document.index]
            engine, context = self.engine_of(changed.path), self.context(changed, other)
            return engine.analyse(changed, context, fixes=False)  # the laws look at findings and estimates alone

        return reanalyse


def real_folder(path: str) -> str:
    """The folder that the file at `path` really lies in."""
    if os.path.islink(path):
        return os.path.dirname(os.path.realpath(path))
    return _real(os.path.dirname(path))


@lru_cache(maxsize=65_536)
def _real(folder: str) -> str:
    return os.path.realpath(folder)


def project_root(folder: str, cwd: str) -> str:
    """The folder that references may not leave: the repository around `folder`, else the working directory around it.

    Outside of both it is the folder two levels below the file system's root (/home/alice): configs name their
    companions relative to a checkout whose `.git` may be gone.
    """
    repository = upward(folder, _own_repository, _repositories)
    if repository:
        return repository
    wide = os.sep.join(folder.split(os.sep)[:3])
    inside = folder == cwd or folder.startswith(cwd.rstrip(os.sep) + os.sep)
    return cwd if inside and len(cwd) >= len(wide) else wide


_repositories: dict[str, str] = {}


def _own_repository(folder: str) -> str | None:
    return folder if os.path.exists(os.path.join(folder, ".git")) else None


def unreadable(path: str, reason: str) -> Finding:
    place = Location(path, 1, 1, 1, 1)
    return Finding(UNREADABLE, "source/unreadable", "error", f"cannot be read: {reason}", place, key=UNREADABLE)


def _concerns_us(document: Document) -> bool:
    """Whether a file that no format claims may be a training config all the same, judged by its text."""
    return bool(document.problems) and _TELLTALE.search(document.text) is not None
