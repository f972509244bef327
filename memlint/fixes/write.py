"""Writing files so that a crash leaves the old one or the new one, never half of either.

All files are checked before the first is written. A file is written beside itself, flushed to disk and
renamed over the old one; its mode is kept. Symbolic links, paths outside of the given roots and files
that changed since they were read are refused.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable

from memlint._record import NamedTuple


class Refused(Exception):
    """A file may not be written: nothing was."""


class Write(NamedTuple):
    """`old` is None for a file that must not exist yet."""

    path: str
    old: bytes | None
    new: bytes


def write_all(writes: Iterable[Write], roots: Iterable[str]) -> None:
    """Writes every file or, where one is refused, none. Raises Refused, or OSError from the disk."""
    planned = tuple(writes)
    allowed = tuple(os.path.realpath(root) for root in roots)
    for write in planned:
        _check(write, allowed)
    for write in planned:
        _replace(write)


def _check(write: Write, roots: tuple[str, ...]) -> None:
    folder = os.path.realpath(os.path.dirname(os.path.abspath(write.path)))
    if not any(folder == root or folder.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        raise Refused(f"{write.path}: outside of the folders that were given")
    if os.path.islink(write.path):
        raise Refused(f"{write.path}: a symbolic link; fix the file that it points to")
    if write.old is None:
        if os.path.lexists(write.path):
            raise Refused(f"{write.path}: exists already")
        return
    if not stat.S_ISREG(os.stat(write.path).st_mode):
        raise Refused(f"{write.path}: not a regular file")
    with open(write.path, "rb") as stream:
        if stream.read() != write.old:
            raise Refused(f"{write.path}: changed while it was being fixed; run again")


def _replace(write: Write) -> None:
    folder = os.path.dirname(os.path.abspath(write.path))
    handle, temporary = tempfile.mkstemp(prefix=".memlint-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(write.new)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(write))
        os.replace(temporary, write.path)
    except BaseException:
        os.unlink(temporary)
        raise


def _mode(write: Write) -> int:
    if write.old is not None:
        return stat.S_IMODE(os.stat(write.path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
