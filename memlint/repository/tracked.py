"""What git tracks, from its index: an ignore file says nothing about files that were added all the same.

The index is read where something is ignored, once for each repository. Its versions 2 and 3 are understood
(gitformat-index); of any other nothing counts as tracked.
"""

from __future__ import annotations

import os
from bisect import bisect_left

MAX_INDEX_BYTES = 64 * 1024 * 1024
_MAX_POINTER_BYTES = 4096
_HEADER = 12  # "DIRC", version, number of entries
_FIXED = 62  # of an entry: what stat said, the object's SHA-1, and flags with the length of its name
_LENGTH, _EXTENDED = 0x0FFF, 0x4000


class Tracked:
    """The files that the repository in the folder `repository` tracks."""

    def __init__(self, repository: str) -> None:
        self.base = repository if repository.endswith(os.sep) else repository + os.sep
        self._names: list[bytes] | None = None

    def files(self) -> list[str]:
        """The names of all of them, counted from the repository's root, with `/`."""
        return list(map(os.fsdecode, self._sorted()))

    def holds(self, path: str, is_folder: bool) -> bool:
        """Whether git tracks the file at `path` (absolute), or a file in the folder there."""
        tracked = self._sorted()
        if not path.startswith(self.base):
            return False
        name = os.fsencode(path[len(self.base) :]).replace(os.fsencode(os.sep), b"/") + (b"/" if is_folder else b"")
        at = bisect_left(tracked, name)
        found = tracked[at] if at < len(tracked) else b""
        return found.startswith(name) if is_folder else found == name

    def _sorted(self) -> list[bytes]:
        if self._names is None:
            self._names = names(_index(self.base))
        return self._names


def names(index: bytes) -> list[bytes]:
    """The paths of the files in an index, sorted; [] where it is none, or none of a known version."""
    version, count = int.from_bytes(index[4:8], "big"), int.from_bytes(index[8:12], "big")
    if index[:4] != b"DIRC" or version not in (2, 3):
        return []
    found: list[bytes] = []
    at = _HEADER
    while len(found) < count and at + _FIXED < len(index):
        flags = index[at + _FIXED - 2] << 8 | index[at + _FIXED - 1]
        start = at + _FIXED + (2 if flags & _EXTENDED else 0)
        length = flags & _LENGTH
        end = start + length if length < _LENGTH else index.find(b"\0", start)
        if end < start:
            break
        found.append(index[start:end])
        at += (end - at) // 8 * 8 + 8  # entries are padded with one to eight zeros
    return sorted(found)


def _index(base: str) -> bytes:
    """The bytes of the index of the repository at `base`; of a worktree, `.git` is a file that names its folder."""
    folder = os.path.join(base, ".git")
    if os.path.isfile(folder):
        pointer = _read(folder, _MAX_POINTER_BYTES).decode("utf-8", "replace").strip()
        if not pointer.startswith("gitdir: "):
            return b""
        folder = os.path.join(base, pointer.removeprefix("gitdir: "))
    return _read(os.path.join(folder, "index"), MAX_INDEX_BYTES)


def _read(path: str, most: int) -> bytes:
    """The file's bytes; none where it is no regular file, cannot be read or has more than `most`."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as stream:
            data = stream.read(most + 1)
    except OSError:
        return b""
    return data if len(data) <= most else b""
