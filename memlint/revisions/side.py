"""One side of a comparison: a commit or the working tree, linted with its own settings."""

from __future__ import annotations

import os
import posixpath
import shutil
import tempfile

from memlint._record import NamedTuple
from memlint.lint.analyse_file import FileAnalysis
from memlint.lint.linter import Linter
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.lint.settings_lookup import read_settings
from memlint.repository.files.commit import LINK, Commit, mentioning
from memlint.repository.files.discovery import SUFFIXES
from memlint.repository.files.git import git_or_empty
from memlint.run import Origin
from memlint.settings import FileSettings
from memlint.settings.model import NAMES


class ConfigOnSide(NamedTuple):
    """The result for one config on one side. `read`: the paths of all files that the analysis read."""

    analysed: FileAnalysis
    linted: LintedFile
    read: frozenset[str]


class Side:
    """Lints the configs of a commit (`revision`) or of the working tree (None). A context manager.

    Names of files are relative to the repository's root.
    """

    def __init__(self, root: str, revision: str | None, request: LintRequest) -> None:
        self.root = root
        self.revision = revision
        self._commit = Commit(root, revision) if revision else None
        self._settings_copy = ""
        self._request = request
        self._seen: dict[str, ConfigOnSide] = {}
        self._linter = self._make_linter()

    def _make_linter(self) -> Linter:
        if self._commit is None:
            return Linter(self._request)
        self._settings_copy = _copied_settings(self._commit)
        workspace = self._commit.workspace(self._request.facts.hub, self._request.facts.exact)
        return Linter(self._request, workspace, self._settings_of_revision)

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        if self._commit is not None:
            self._commit.close()
        if self._settings_copy:
            shutil.rmtree(self._settings_copy, ignore_errors=True)

    def has(self, name: str) -> bool:
        """Whether this side has a file of that name."""
        if self._commit is not None:
            return name in self._commit.entries
        return os.path.isfile(os.path.join(self.root, name))

    def lint(self, name: str) -> ConfigOnSide:
        """The result for a config on this side; cached."""
        if name not in self._seen:
            analysed = self._linter.analyse(name, named=False)
            parts = (part for item in analysed.analyses if item.parsed for part in item.parsed.documents)
            read = frozenset(part.path for part in parts)
            self._seen[name] = ConfigOnSide(analysed, self._linter.report(analysed), read)
        return self._seen[name]

    def affected(self, touched: set[str]) -> set[str]:
        """The configs of this side that are among the changed files `touched`, or that read one of them."""
        found = {name for name in touched if name.endswith(SUFFIXES) and self.has(name)}
        links = {link for link, target in self._links() if target in touched}
        names_used = {word for name in touched | links if self.has(name) for word in _names_for(name)}
        candidates = set(mentioning(self.root, self.revision, names_used)) - found
        found |= {name for name in candidates if self.has(name) and self._depends(name, touched)}
        folders = [posixpath.dirname(name) for name in touched if posixpath.basename(name) in NAMES]
        return found | set(self._configs(folders))

    def _links(self) -> list[tuple[str, str]]:
        """(name, name of the target) of each symbolic link that is tracked on this side."""
        if self._commit is not None:
            return self._commit.links()
        staged = git_or_empty(self.root, "ls-files", "--stage", "-z").split(b"\0")
        links = [os.fsdecode(line.partition(b"\t")[2]) for line in staged if line.startswith(LINK)]
        targets = (os.path.realpath(os.path.join(self.root, link)) for link in links)
        return [(link, os.path.relpath(target, self.root).replace(os.sep, "/")) for link, target in zip(links, targets)]

    def _depends(self, name: str, touched: set[str]) -> bool:
        """Whether the config reads a changed file, or names the folder of a model whose config.json changed."""
        config = self.lint(name)
        if config.read & touched:
            return True
        models = {posixpath.dirname(other) for other in touched if posixpath.basename(other) == "config.json"}
        runs = (run for item in config.analysed.analyses for run in item.runs)
        names = {posixpath.normpath(str(run.model.name)).lstrip("./") for run in runs}
        return any(model == known or model.endswith("/" + known) for model in models for known in names if known)

    def _configs(self, folders: list[str]) -> list[str]:
        """Every config below `folders`, whose settings files changed."""
        if not folders:
            return []
        names = self._commit.configs() if self._commit else mentioning(self.root, None, [":"])
        below = (name for name in names if any(not top or name.startswith(top + "/") for top in folders))
        return [name for name in below if self.lint(name).analysed.format]

    def _settings_of_revision(self, path: str) -> FileSettings:
        """The settings as this commit has them, with paths in the repository instead of the temporary copy."""
        copy = self._settings_copy
        facts = self._request.facts
        found = read_settings(os.path.join(copy, path), facts)
        if facts.settings_file or not found.path:
            return found

        def in_repository(name: str) -> str:
            return self.root + name[len(copy) :] if name.startswith(copy) else name

        def relocated(origin: Origin) -> Origin:
            return origin._replace(path=os.path.relpath(origin.path, copy).replace(os.sep, "/"))

        return found._replace(
            path=in_repository(found.path),
            rules_dirs=tuple(map(in_repository, found.rules_dirs)),
            companions=tuple(map(in_repository, found.companions)),
            models={
                key: in_repository(value) if isinstance(value, str) else value for key, value in found.models.items()
            },
            origins={key: relocated(origin) for key, origin in found.origins.items()},
        )


def _names_for(name: str) -> tuple[str, ...]:
    """The words by which a config may refer to a file: its base name; for a model's config.json its folder's name."""
    base = posixpath.basename(name)
    if base == "config.json" and "/" in name:
        return (posixpath.basename(posixpath.dirname(name)),)
    return (base,)


def _copied_settings(commit: Commit) -> str:
    """Copies the commit's settings files to a temporary folder, laid out as in the repository. Returns its path."""
    folder = os.path.realpath(tempfile.mkdtemp(prefix="memlint-"))
    os.mkdir(os.path.join(folder, ".git"))  # ends the search for settings in parent folders
    for name in commit.entries:
        if posixpath.basename(name) in NAMES:
            path = os.path.join(folder, *name.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(commit.read(posixpath.join(commit.root, name)))
    return folder
