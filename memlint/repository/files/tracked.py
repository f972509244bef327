"""The files that git tracks, including those that were added although an ignore file matches them.

Git runs once per repository, and only if something is ignored or launch commands are searched.
"""

from __future__ import annotations

import os
from bisect import bisect_left


class Tracked:
    """The files that the repository in the folder `repository` tracks; none if git fails.

    `problem`: why git failed; "" if it succeeded or has not run yet.
    """

    def __init__(self, repository: str) -> None:
        self.base = repository if repository.endswith(os.sep) else repository + os.sep
        self.problem = ""
        self._names: list[str] | None = None

    def files(self) -> list[str]:
        """The names of all tracked files, relative to the repository's root, with `/`."""
        if self._names is None:
            self._names = self._listed_by_git() if self.is_repository else []
        return self._names

    @property
    def is_repository(self) -> bool:
        """Whether the folder is one that git looks after."""
        return os.path.exists(os.path.join(self.base, ".git"))

    def contains(self, path: str, is_folder: bool) -> bool:
        """Whether git tracks the file at `path` (absolute), or a file in the folder there."""
        tracked = self.files()
        if not path.startswith(self.base):
            return False
        name = path[len(self.base) :].replace(os.sep, "/") + ("/" if is_folder else "")
        at = bisect_left(tracked, name)
        found = tracked[at] if at < len(tracked) else ""
        return found.startswith(name) if is_folder else found == name

    def _listed_by_git(self) -> list[str]:
        from memlint.repository.files.git import NoGit, tracked_files  # subprocess: 5 ms

        try:
            return sorted(tracked_files(self.base))
        except NoGit as error:
            self.problem = f"{error}: what git tracks in ignored folders is left out"
            return []
