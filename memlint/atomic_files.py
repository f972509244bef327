"""Writes files atomically: to a temporary file in the same folder, flushed to disk, then renamed over the old one.

A crash, a full disk or Ctrl-C leaves the old file as it was. Anything but a regular file (a terminal, a pipe,
/dev/null), and a file that another process has open (/dev/stdout redirected to a file), is written to directly: a
rename would replace it by a file that nobody reads.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

PREFIX = ".memlint-"  # of temporary files; one that a power cut left behind may be deleted
_BINARY = getattr(os, "O_BINARY", 0)
_STREAMS = (1, 2)  # standard output and standard error
_OPEN_FILES = ("/dev/fd/", "/dev/std", "/proc/")  # names of files that a process has open, also of regular ones


class NotWritten(Exception):
    """A file could not be written and is unchanged; the message has the path and the reason."""


def write_whole(path: str, pieces: Iterable[bytes]) -> None:
    """Replaces the contents of the file at `path` by `pieces`; it keeps its mode and owner. Links are followed.

    :raises NotWritten: where that cannot be done.
    """
    try:
        stream = _stream(path)
        if stream is None:
            _replace(os.path.realpath(path), pieces)
            return
        with stream:
            stream.writelines(pieces)
    except OSError as error:
        raise NotWritten(f"{path}: {error_reason(error, path)}") from None


def write_text(path: str, pieces: Iterable[str]) -> None:
    """Like `write_whole`, for text, as UTF-8. Raises NotWritten."""
    write_whole(path, (piece.encode("utf-8", "replace") for piece in pieces))


def write_temporary(path: str, pieces: Iterable[bytes]) -> str:
    """The name of a new file in the same folder that holds `pieces` and has the mode and owner of `path`.

    :raises OSError: where it cannot be written, or where the old file may not be.
    """
    old = _existing_file(path)
    temporary = os.path.join(os.path.dirname(os.path.abspath(path)), f"{PREFIX}{os.urandom(8).hex()}")
    # The temporary file of a private file must not be readable by others. A new file gets the mode of the umask.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600 if old else 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(pieces)
            stream.flush()
            os.fsync(stream.fileno())
        if old:
            _restore_mode_and_owner(temporary, old)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    return temporary


def error_reason(error: OSError, path: str) -> str:
    """Why `path` could not be written; names the folder if the folder is the reason."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if isinstance(error, PermissionError) and not os.access(folder, os.W_OK):
        return f"{error.strerror}: no file can be made in {folder}"
    return error.strerror or str(error)


def _replace(path: str, pieces: Iterable[bytes]) -> None:
    temporary = write_temporary(path, pieces)
    try:
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _stream(path: str) -> BinaryIO | None:
    """An open stream for a path that is no regular file (pipe, terminal); None for a regular or new one."""
    if not os.path.basename(path):  # `reports/`, which `realpath` would take for `reports`
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    try:
        there = os.stat(path)
    except FileNotFoundError:
        return None
    for number in _STREAMS:
        with suppress(OSError):  # closed
            if os.path.samestat(there, os.fstat(number)):
                return os.fdopen(os.dup(number), "wb")  # continues where the last write ended
    if stat.S_ISREG(there.st_mode) and not os.path.abspath(path).startswith(_OPEN_FILES):
        return None
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | _BINARY), "wb")


def _existing_file(path: str) -> os.stat_result | None:
    """The status of an existing file. Raises PermissionError if it is read-only, which a rename would ignore."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        return None
    if not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return old


def _restore_mode_and_owner(path: str, old: os.stat_result) -> None:
    """Gives the new file the old mode and owner, so that root in a container does not take over a user's file."""
    if hasattr(os, "chown") and (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):  # not ours to give away
            os.chown(path, old.st_uid, old.st_gid)
    os.chmod(path, stat.S_IMODE(old.st_mode))
