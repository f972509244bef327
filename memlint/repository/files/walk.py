"""Lists the files below a folder, nearest first and up to a bound, for folders without git."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from memlint.repository.files.globs import THIRD_PARTY_FOLDERS

MOST_FOLDERS = 2000
MOST_FILES = 5000
_PASSED_OVER = THIRD_PARTY_FOLDERS | {"tests", "build", "dist"}


def files_below(root: str, is_wanted: Callable[[str], bool] = lambda name: True) -> Iterator[str]:
    """Paths (posix) of files whose name `is_wanted`, breadth first; hidden folders, environments and links are passed
    over."""
    folders, found = [root], 0
    for number, folder in enumerate(folders):
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name[0] == "." or entry.name in _PASSED_OVER:
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif is_wanted(entry.name) and entry.is_file(follow_symlinks=False):
                found += 1
                yield entry.path.replace(os.sep, "/")
        if found >= MOST_FILES or number >= MOST_FOLDERS:
            return
