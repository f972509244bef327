"""Limits the files that an agent may read to those below one folder, after symbolic links are resolved."""

from __future__ import annotations

import os

from memlint.errors import Error

MAX_TEXT = 1_000_000  # characters of a config that is sent


def confined(path: str, root: str) -> str:
    """`path` (relative to `root`, or absolute) as a path relative to `root`. Raises Error for anything outside."""
    if "\0" in path:
        raise Error("a path has no NUL")
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root.rstrip(os.sep) + os.sep):
        raise Error(f"{path}: outside of {root}, which this server may not leave")
    if not os.path.exists(real):
        raise Error(f"{path}: no such file or folder")
    return os.path.relpath(real, root)
