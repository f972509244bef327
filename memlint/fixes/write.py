"""Writes several files so that all of them are changed, or none.

All files are checked and written beside themselves (`memlint.atomic_files`) before the first is put in place, and
checked once more then: a full disk or a file that somebody else changed stops all of them. Symbolic links, paths
outside of the given roots and files that hold other bytes than those that were read are refused.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress

from memlint._record import NamedTuple
from memlint.atomic_files import error_reason, write_temporary


class WriteRefused(Exception):
    """A file may not or cannot be written. The message says which files were written: none, as a rule."""


class Write(NamedTuple):
    """A file with its new content. `old`: the content that it must have; None where it must not exist yet."""

    path: str
    old: bytes | None
    new: bytes


def write_all(writes: Iterable[Write], roots: Iterable[str]) -> None:
    """Writes every file or, where one is refused, none. Raises WriteRefused."""
    planned = tuple(writes)
    allowed = tuple(os.path.realpath(root) for root in roots)
    waiting: list[str] = []
    done: list[str] = []
    at = ""
    try:
        for write in planned:
            _check(write, allowed)
        for write in planned:
            at = write.path
            waiting.append(write_temporary(write.path, (write.new,)))
        for write in planned:  # it may have taken a while to get here
            _check(write, allowed)
        for write, temporary in zip(planned, waiting):
            at = write.path
            os.replace(temporary, at)
            done.append(write.path)
    except OSError as error:
        raise WriteRefused(f"{at}: {error_reason(error, at)}: {_left(done)}") from None
    except WriteRefused as error:
        raise WriteRefused(f"{error}: {_left(done)}") from None
    finally:
        for temporary in waiting[len(done) :]:
            with suppress(OSError):
                os.unlink(temporary)


def _left(done: list[str]) -> str:
    return f"only {', '.join(done)} was written" if done else "nothing was written"


def _check(write: Write, roots: tuple[str, ...]) -> None:
    """Raises WriteRefused."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(write.path)))
    if not any(folder == root or folder.startswith(root.rstrip(os.sep) + os.sep) for root in roots):
        raise WriteRefused(f"{write.path}: outside of the folders that were given")
    if os.path.islink(write.path):
        raise WriteRefused(f"{write.path}: a symbolic link; fix the file that it points to")
    if write.old is None:
        if os.path.lexists(write.path):
            raise WriteRefused(f"{write.path}: exists already")
        return
    if _bytes(write.path, len(write.old) + 1) != write.old:
        raise WriteRefused(f"{write.path}: changed while it was being fixed; run again")


def _bytes(path: str, most: int) -> bytes:
    """The first bytes of a regular file, without waiting for who would fill a pipe. Raises WriteRefused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise WriteRefused(f"{path}: not a regular file")
            return stream.read(most)
    except OSError as error:
        raise WriteRefused(f"{path}: {error.strerror}") from None
