"""Reads files and checks whether they exist. On request it records every answer of the disk.

The result cache must know what a result depends on: the contents that were read, and the files that were found absent.
So every access of a check to the disk goes through this module. Without a record, that costs only a function call.

The content of a checked file (`read_checked`) only affects the result of this file, until something else refers to it
(`share`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable

from memlint._record import NamedTuple

_AT_ONCE = 1 << 16  # bytes per call of read: enough for most configs
MOST_FOLDERS = 65_536  # folders whose real paths are cached
Answers = dict[tuple[str, str], "str | bytes"]  # (question, absolute path) -> the answer, or the bytes read


class Recorded(NamedTuple):
    """The recorded answers. `own`: the contents of checked files. `shared`: everything that affects all results.

    `complete`: False if an answer changed meanwhile, or if something was read without being recorded.
    """

    shared: Answers
    own: Answers
    complete: bool


class _Record:
    """The record of this process. `shorten`: computes what is kept instead of the bytes read, such as a digest."""

    __slots__ = ("complete", "own", "shared", "shorten")

    def __init__(self, complete: bool = True) -> None:
        self.shared: Answers = {}
        self.own: Answers = {}
        self.complete = complete
        self.shorten: Callable[[bytes], str] | None = None

    def note(self, answers: Answers, key: tuple[str, str], answer: str | bytes) -> None:
        if self.shorten is not None and isinstance(answer, bytes):
            answer = self.shorten(answer)
        if answers.setdefault(key, answer) != answer:
            self.complete = False


_record: _Record | None = None
# Whether something was read before the record began. A later record cannot include it: it may come from caches.
_has_read = False


def start() -> None:
    """Begins the record of this process."""
    global _record
    _record = _Record(complete=not _has_read)


def shorten(by: Callable[[bytes], str]) -> None:
    """Makes the record keep `by(data)` instead of the bytes that are read."""
    if _record is not None:
        _record.shorten = by
        for answers in (_record.shared, _record.own):
            answers.update({key: by(answer) for key, answer in answers.items() if isinstance(answer, bytes)})


def stop() -> None:
    global _record, _has_read
    _record, _has_read = None, True


def take() -> Recorded:
    """Returns what was recorded since the last call, and continues recording."""
    global _record
    done = _record or _Record(complete=False)
    if _record is not None:
        _record = _Record()
        _record.shorten = done.shorten
    return Recorded(done.shared, done.own, done.complete)


def add(found: Recorded) -> None:
    """Adds what another process recorded."""
    if _record is not None:
        _record.complete = _record.complete and found.complete
        for answers, more in ((_record.shared, found.shared), (_record.own, found.own)):
            for key, answer in more.items():
                _record.note(answers, key, answer)


def note(kind: str, path: str, answer: str | bytes) -> None:
    """Records an answer that concerns every result."""
    global _has_read
    if _record is None:
        _has_read = True
    else:
        _record.note(_record.shared, (kind, os.path.abspath(path)), answer)


def note_date(date: str, answer: str) -> None:
    """Records whether a date that files state is past."""
    if _record is not None:
        _record.note(_record.shared, ("past", date), answer)


def cannot_record() -> None:
    """Marks the record as incomplete: results depend on something that is not recorded."""
    if _record is not None:
        _record.complete = False


def share(path: str) -> None:
    """Notes that the content of a checked file also affects the results of other files."""
    if _record is not None:
        note("share", path, "")


def has_word(path: str, data: bytes, words: tuple[str, ...], most: int) -> bool:
    """Whether `data`, read from `path`, has at most `most` bytes and one of `words`. Of a checked file, this alone
    affects the results of other files."""
    found = is_short_with(data, words, most)
    note(f"words {most} {'/'.join(words)}", path, str(found))
    return found


def is_short_with(data: bytes, words: tuple[str, ...], most: int) -> bool:
    """Like `has_word`, without recording."""
    return len(data) <= most and any(word.encode() in data for word in words)


def is_file(path: str) -> bool:
    found = os.path.isfile(path)
    note("file", path, str(found))
    return found


def is_folder(path: str) -> bool:
    found = os.path.isdir(path)
    note("folder", path, str(found))
    return found


def exists(path: str) -> bool:
    found = os.path.exists(path)
    note("exists", path, str(found))
    return found


def realpath(path: str) -> str:
    found = os.path.realpath(path)
    note("real", path, found)
    return found


class RealPaths:
    """Computes real paths with a cache of folders, so that only the last part of a new path needs the disk.

    Later changes of links are not seen, so an instance belongs to one check.
    """

    __slots__ = ("_folders",)

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        found = self._folders.get(path) or self._real_path(path)
        note("real", path, found)
        return found

    def folder(self, path: str) -> str:
        """The real path of a folder; cached."""
        found = self._folder(path) if _is_plain(path) else os.path.realpath(path)
        note("real", path, found)
        return found

    def _real_path(self, path: str) -> str:
        if not _is_plain(path) or os.path.islink(path):
            return os.path.realpath(path)
        folder, name = os.path.split(path)
        return os.path.join(self._folder(folder), name)

    def _folder(self, folder: str) -> str:
        """The real path of an absolute folder: that of the folder above it, unless it is a link."""
        passed: list[str] = []
        if len(self._folders) > MOST_FOLDERS:
            self._folders.clear()
        while folder not in self._folders:
            above = os.path.dirname(folder)
            if above == folder or os.path.islink(folder):
                self._folders[folder] = os.path.realpath(folder)
            else:
                passed.append(folder)
                folder = above
        real = self._folders[folder]
        for one in reversed(passed):
            real = self._folders[one] = os.path.join(real, os.path.basename(one))
        return real


def _is_plain(path: str) -> bool:
    """Whether the real path follows from that of the folder and the name. Not with `..`, whose meaning a link changes,
    nor with short names of Windows."""
    return os.name != "nt" and os.path.isabs(path) and os.path.normpath(path) == path


def among(folder: str, names: frozenset[str]) -> frozenset[str]:
    """The `names` that exist in a folder, found by listing it once instead of asking for each name. A name that ends in
    `*` stands for all that begin so."""
    found = names_among(folder, names)
    if _record is not None:
        note(f"among {'/'.join(sorted(names))}", folder, "/".join(sorted(found)))
    return found


def names_among(folder: str, names: frozenset[str]) -> frozenset[str]:
    """Like `among`, without recording."""
    try:
        return matching(os.listdir(folder), names)
    except OSError:
        return frozenset()


def matching(held: Iterable[str], names: frozenset[str]) -> frozenset[str]:
    """What `among` finds where a folder holds the names `held`."""
    beginnings = tuple(name[:-1] for name in names if name.endswith("*"))
    found = frozenset(held)
    return (found & names) | frozenset(name for name in found if name.startswith(beginnings))


def listed(path: str) -> list[str]:
    """The sorted names in a folder. Raises OSError."""
    try:
        found = sorted(os.listdir(path))
    except OSError:
        note("listed", path, "")
        raise
    note_names("listed", path, found)
    return found


def note_names(kind: str, path: str, names: Iterable[str]) -> None:
    """Records a list of names."""
    if _record is not None:
        note(kind, path, os.fsencode("\0".join(names)))


def read(path: str, most: int) -> bytes:
    """The first `most` bytes of any file, regular or not. Raises OSError."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(most)
    except OSError:
        note(f"bytes {most}", path, "")
        raise
    note(f"bytes {most}", path, data)
    return data


def read_checked(path: str, most: int) -> bytes:
    """The first `most` bytes of a regular file that is to be checked, or that a checked one may name. Raises OSError.

    Pipes and devices are refused: opening one can hang.
    """
    global _has_read
    try:
        data = regular(path, most)
    except OSError:
        note(f"bytes {most}", path, "")
        raise
    if _record is None:
        _has_read = True
    else:
        _record.note(_record.own, (f"bytes {most}", os.path.abspath(path)), data)
    return data


def regular(path: str, most: int) -> bytes:
    """The bytes of a regular file, without a record. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        pieces = []
        while most and (piece := os.read(descriptor, min(most, _AT_ONCE))):
            pieces.append(piece)
            most -= len(piece)
        return b"".join(pieces)
    finally:
        os.close(descriptor)
