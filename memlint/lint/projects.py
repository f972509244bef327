"""Finds the project (the folder that references may not leave) and the workspace of a file."""

from __future__ import annotations

import os
from collections.abc import Mapping

import memlint.file_access as file_access
from memlint.repository.files.upward import upward
from memlint.repository.workspace import Workspace, in_editor, on_disk


class Workspaces:
    """Workspaces by project. Files in the repository of `cwd` are one project; a path outside belongs to its own.

    `contents`: bytes by path that replace files on disk (standard input). `only`: a workspace to use for every path.
    `unsaved`: the contents of an editor's buffers, by real path. They may change; `forget` must then be called.
    """

    def __init__(
        self,
        cwd: str = "",
        hub: bool = False,
        exact: bool = False,
        contents: Mapping[str, bytes] | None = None,
        only: Workspace | None = None,
        unsaved: Mapping[str, bytes] | None = None,
    ) -> None:
        self.cwd = os.path.realpath(cwd or os.getcwd())
        self._hub = hub
        self._exact = exact
        self._contents = contents or {}
        self._only = only
        self._unsaved = unsaved
        self._by_root: dict[str, Workspace] = {}
        self._root_of: dict[str, str] = {}

    def of(self, path: str) -> Workspace:
        """The workspace of the project that `path` belongs to."""
        if self._only is not None:
            return self._only
        folder = real_folder(os.path.join(self.cwd, path))
        if folder not in self._root_of:
            self._root_of[folder] = project_root(folder, self.cwd)
        root = self._root_of[folder]
        if root not in self._by_root:
            workspace = self._new_workspace(root)
            self._by_root[root] = workspace.overlaid(self._contents) if self._contents else workspace
        return self._by_root[root]

    def _new_workspace(self, root: str) -> Workspace:
        if self._unsaved is not None:
            return in_editor(root, self.cwd, self._unsaved, self._hub, self._exact)
        return on_disk(root, self.cwd, hub=self._hub, exact=self._exact)

    def forget(self, path: str) -> None:
        """Drops what is cached about the file at `path`, because its content has changed."""
        for workspace in self._by_root.values():
            workspace.forget(path)


def real_folder(path: str) -> str:
    """The folder of the file at `path`, with symbolic links resolved."""
    if os.path.islink(path):
        return os.path.dirname(file_access.realpath(path))
    return _real_paths.folder(os.path.dirname(path))


_real_paths = file_access.RealPaths()


def project_root(folder: str, cwd: str) -> str:
    """The folder that references may not leave: the repository that contains `folder`, else the working directory.

    If neither contains it, the folder two levels below the file system's root (/home/alice): configs name their
    companions relative to a checkout whose `.git` may be missing.
    """
    repository = upward(folder, _own_repository, _repositories)
    if repository:
        return repository
    wide = os.sep.join(folder.split(os.sep)[:3])
    inside = folder == cwd or folder.startswith(cwd.rstrip(os.sep) + os.sep)
    return cwd if inside and len(cwd) >= len(wide) else wide


_repositories: dict[str, str] = {}


def _own_repository(folder: str) -> str | None:
    return folder if file_access.exists(os.path.join(folder, ".git")) else None
