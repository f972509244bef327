"""Writing files so that a crash leaves the old one or the new one, never half of either.

All files are checked and written beside themselves before the first is put in place, and checked once more then: a
full disk or a file that somebody else changed stops all of them. A file is flushed to disk and renamed over the old
one; its mode is kept. Symbolic links, paths outside of the given roots and files that hold other bytes than those
that were read are refused.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress

from memlint._record import NamedTuple


class Refused(Exception):
    """A file may not be written, or cannot be. The message says what was: nothing, as a rule."""


class Write(NamedTuple):
    """`old` is None for a file that must not exist yet."""

    path: str
    old: bytes | None
    new: bytes


def write_all(writes: Iterable[Write], roots: Iterable[str]) -> None:
    """Writes every file or, where one is refused, none. Raises Refused."""
    planned = tuple(writes)
    allowed = tuple(os.path.realpath(root) for root in roots)
    beside: list[str] = []
    done: list[str] = []
    at = ""
    try:
        for write in planned:
            _check(write, allowed)
        for write in planned:
            at = write.path
            beside.append(_beside(write))
        for write in planned:  # it may have taken a while to get here
            _check(write, allowed)
        for write, temporary in zip(planned, beside):
            at = write.path
            os.replace(temporary, at)
            done.append(write.path)
    except OSError as error:
        raise Refused(f"{at}: {error.strerror or error}: {_left(done)}") from None
    except Refused as error:
        raise Refused(f"{error}: {_left(done)}") from None
    finally:
        for temporary in beside[len(done) :]:
            with suppress(OSError):
                os.unlink(temporary)


def _left(done: list[str]) -> str:
    return f"only {', '.join(done)} was written" if done else "nothing was written"


def _check(write: Write, roots: tuple[str, ...]) -> None:
    """Raises Refused."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(write.path)))
    if not any(folder == root or folder.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        raise Refused(f"{write.path}: outside of the folders that were given")
    if os.path.islink(write.path):
        raise Refused(f"{write.path}: a symbolic link; fix the file that it points to")
    if write.old is None:
        if os.path.lexists(write.path):
            raise Refused(f"{write.path}: exists already")
        return
    if _bytes(write.path, len(write.old) + 1) != write.old:
        raise Refused(f"{write.path}: changed while it was being fixed; run again")


def _bytes(path: str, most: int) -> bytes:
    """The first bytes of a regular file, without waiting for who would fill a pipe. Raises Refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Refused(f"{path}: not a regular file")
            return stream.read(most)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from None


def _beside(write: Write) -> str:
    """The new contents in a file of the same folder and mode. Raises OSError."""
    folder = os.path.dirname(os.path.abspath(write.path))
    handle, temporary = tempfile.mkstemp(prefix=".memlint-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(write.new)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(write))
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def _mode(write: Write) -> int:
    if write.old is not None:
        return stat.S_IMODE(os.stat(write.path).st_mode)
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
