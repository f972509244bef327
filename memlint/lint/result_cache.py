"""Keeps the results of a check, so that an unchanged tree is answered from them.

One file in the cache folder for each way of asking: working directory, paths, options, version of memlint and of what
it stands on, environment. It holds what the results rest on (memlint.file_access) with the answers that the disk
gave: files that were read, files that were looked for in vain, lists of files; and the dates of suppressions, with
whether they are past. If all of these answers are the same
now, the results hold of each file that has the same content as then. Else nothing holds, and everything is checked.

A cache file is read with care: it may be damaged, of another program or another user. Nothing in it is executed; what
is not as it should be counts as not there. One that cannot be written is not written, and nothing is said.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib import import_module
from typing import Any

import memlint.file_access as file_access
from memlint import __version__
from memlint._record import NamedTuple
from memlint.atomic_files import NotWritten, write_whole
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.lint.suppress import today
from memlint.repository.discovery import FoundFile
from memlint.repository.python_arguments import python_files
from memlint.repository.tracked import Tracked
from memlint.repository.walk import files_below
from memlint.ruleset.internal_error import INTERNAL_ERROR
from memlint.run import UNKNOWN
from memlint.shipped_data import PACKAGE, folder
from memlint.source.encoding import MAX_BYTES

FORMAT = b"memlint results 1\n"
SUFFIX = ".results"
_CHECKED = f"bytes {MAX_BYTES + 1}"  # how a checked file is read
# Of checks of more files nothing is kept: what a result rests on takes 3 KiB a file, and a check of any number of files
# is to stay below 120 MiB (benchmarks/speed/scan.py).
MOST_FILES = 5_000
KEPT_DAYS = 30  # a cache file that was not written for so long is deleted
_ENVIRONMENT = ("HOME", "USERPROFILE", "HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "PATH")
_Lint = Callable[[Sequence[FoundFile]], Iterable[LintedFile]]


def default_folder() -> str:
    """The platform's folder for caches of this user."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.expanduser("~")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "memlint")


def is_cacheable(request: LintRequest, files: int) -> bool:
    """Whether the results of so many files are kept: they rest on files and options alone (no network, plug-in,
    PyTorch, standard input)."""
    facts = request.facts
    rests_on_more = facts.hub or facts.exact or request.plugins or request.contents or request.what_if
    return files <= MOST_FILES and not rests_on_more


class ResultCache:
    """The results of one way of asking. `lint` checks the files that have none."""

    def __init__(self, cache_folder: str, request: LintRequest, paths: Sequence[str]) -> None:
        file_access.shorten(digest)
        self._path = os.path.join(cache_folder, f"{_key(request, paths)}{SUFFIX}")

    def lint(self, files: Sequence[FoundFile], lint: _Lint) -> Iterator[LintedFile]:
        """The result of each file, in their order, then keeps them. Raises what `lint` raises."""
        stored = _read(self._path)
        asked = {item: _file_key(item) for item in files}
        held = {key for key in asked.values() if stored is not None and stored.holds(key)}
        fresh = iter(lint([item for item in files if asked[item] not in held]))
        blobs: dict[str, bytes] = {}
        for item in files:
            key = asked[item]
            linted = stored.result(key) if stored is not None and key in held else None
            if linted is None and key in held:  # damaged since it was written
                linted = next(iter(lint([item])))
            elif linted is None:
                linted = next(fresh)
            else:
                yield linted
                continue
            if not any(found.rule == INTERNAL_ERROR for found in linted.report.findings):
                blobs[key] = _packed(linted)
            yield linted
        if blobs or (stored is not None and len(held) < len(stored.files)):
            self._keep(stored, held, blobs)

    def _keep(self, stored: _Stored | None, held: set[str], blobs: Mapping[str, bytes]) -> None:
        recorded = file_access.take()
        shared = dict(stored.shared) if stored is not None and held else {}
        contents = {path: str(answer) for (_, path), answer in recorded.own.items()}
        wanted = {key[1:] for key in (*held, *blobs)}
        for (kind, path), answer in _texts(recorded.shared):
            if kind != "share":
                shared[kind, path] = answer
            elif path in contents:
                shared[_CHECKED, path] = contents[path]
        shared |= {(_CHECKED, path): answer for path, answer in contents.items() if path not in wanted}
        found = {key: (str(stored.files[key][0]), stored.blob(key)) for key in held} if stored is not None else {}
        found |= {key: (contents[key[1:]], blob) for key, blob in blobs.items() if key[1:] in contents}
        agreed = stored is None or all(
            recorded.shared.get(key, answer) == answer for key, answer in stored.shared.items()
        )
        if recorded.complete and agreed and found:
            _write(self._path, shared, found)


def _texts(answers: file_access.Answers) -> Iterator[tuple[tuple[str, str], str]]:
    """The answers as they are kept: bytes by their digest."""
    return ((key, answer if isinstance(answer, str) else digest(answer)) for key, answer in answers.items())


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _file_key(item: FoundFile) -> str:
    """The file's absolute path, and before it whether the user named it (1), and as a link (2): versions that hold for
    a link are those of the repository that it leads to."""
    return f"{int(item.named) + int(item.named and os.path.islink(item.path))}{os.path.abspath(item.path)}"


def _key(request: LintRequest, paths: Sequence[str]) -> str:
    """Names the way of asking."""
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    python = (sys.version, sys.platform, sys.flags.utf8_mode, sys.getfilesystemencoding())
    asked = (FORMAT, __version__, _code(), request, os.getcwd(), tuple(paths), environment, python)
    return digest(repr(asked).encode("utf-8", "backslashreplace"))


def _code() -> list[str]:
    """Size and time of each file of memlint, and the time of the folder that other packages were installed in."""
    found = []
    for top in (PACKAGE, folder("rules"), folder("schemas")):
        for above, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(names):
                status = os.stat(os.path.join(above, name))
                found.append(f"{above}/{name} {status.st_size} {status.st_mtime_ns}")
    installed = os.path.dirname(os.path.dirname(str(import_module("yaml").__file__)))
    return [*found, str(os.stat(installed).st_mtime_ns)]


class _Stored(NamedTuple):
    """A cache file. `files`: digest, place and length of the result of each file."""

    data: bytes
    shared: Mapping[tuple[str, str], str]
    files: Mapping[str, tuple[str, int, int]]

    def holds(self, key: str) -> bool:
        """Whether there is a result for the content that the file has now."""
        return key in self.files and _answer(_CHECKED, key[1:]) == self.files[key][0]

    def blob(self, key: str) -> bytes:
        _, start, length = self.files[key]
        return self.data[start : start + length]

    def result(self, key: str) -> LintedFile | None:
        return _unpacked(self.blob(key))


def _read(path: str) -> _Stored | None:
    """The cache file, if all that its results rest on is as it was."""
    try:
        if hasattr(os, "getuid") and os.stat(path).st_uid != os.getuid():
            return None
        with open(path, "rb") as stream:
            data = stream.read()
        if not data.startswith(FORMAT):
            return None
        size = int.from_bytes(data[-8:], "big")
        head = json.loads(zlib.decompress(data[len(data) - 8 - size : -8]))
        shared = {(str(kind), str(asked)): str(answer) for kind, asked, answer in head["shared"]}
        files = {str(key): (str(one), int(start), int(length)) for key, (one, start, length) in head["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, zlib.error):
        return None
    return _Stored(data, shared, files) if all(_answer(*key) == answer for key, answer in shared.items()) else None


def _answer(kind: str, path: str) -> str | None:
    """What the disk, or the calendar, answers now."""
    question, _, about = kind.partition(" ")
    try:
        if question == "bytes":
            return digest(file_access.regular(path, int(about)))
        if question == "among":
            return "/".join(sorted(file_access.names_among(path, frozenset(about.split("/")))))
        return _ANSWERS[kind](path)
    except (OSError, ValueError):
        return ""
    except KeyError:
        return None


def _names(found: Iterable[str]) -> str:
    return digest(os.fsencode("\0".join(found)))


_ANSWERS: Mapping[str, Callable[[str], str]] = {
    "file": lambda path: str(os.path.isfile(path)),
    "folder": lambda path: str(os.path.isdir(path)),
    "exists": lambda path: str(os.path.exists(path)),
    "real": os.path.realpath,
    "listed": lambda path: _names(sorted(os.listdir(path))),
    "repository": lambda path: str(Tracked(path).is_repository),
    "below": lambda path: _names(files_below(path)),
    "tracked": lambda path: _names(Tracked(path).files()),
    "python": lambda path: _names(python_files(path)),
    "past": lambda date: str(date < today()),
}


def _write(path: str, shared: Mapping[tuple[str, str], Any], files: Mapping[str, tuple[Any, bytes]]) -> None:
    pieces, places, at = [FORMAT], {}, len(FORMAT)
    for key, (content, blob) in files.items():
        places[key] = (content, at, len(blob))
        pieces.append(blob)
        at += len(blob)
    rows = [(kind, asked, answer) for (kind, asked), answer in shared.items()]
    head = zlib.compress(json.dumps({"shared": rows, "files": places}).encode(), 1)
    with suppress(OSError, NotWritten):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _delete_old(os.path.dirname(path))
        write_whole(path, (*pieces, head, len(head).to_bytes(8, "big")))


def _delete_old(cache_folder: str) -> None:
    oldest = time.time() - KEPT_DAYS * 86_400
    for name in os.listdir(cache_folder):
        path = os.path.join(cache_folder, name)
        if name.endswith(SUFFIX) and os.stat(path).st_mtime < oldest:
            os.unlink(path)


def _packed(linted: LintedFile) -> bytes:
    return zlib.compress(pickle.dumps(linted, pickle.HIGHEST_PROTOCOL), 1)


class _Records(pickle.Unpickler):
    """Reads memlint's own records and plain values, and nothing that could run."""

    def find_class(self, module: str, name: str) -> Any:
        known = _CLASSES.get((module, name))
        if known is None:
            if not module.startswith("memlint.") or "." in name:
                raise pickle.UnpicklingError(f"{module}.{name} has no place in a result")
            known = getattr(import_module(module), name)
            if known is not UNKNOWN and not (isinstance(known, type) and issubclass(known, tuple)):
                raise pickle.UnpicklingError(f"{module}.{name} is no record")
            _CLASSES[module, name] = known
        return known


_CLASSES: dict[tuple[str, str], Any] = {}


_DAMAGED = (
    *(zlib.error, pickle.UnpicklingError, EOFError, ImportError, LookupError, AttributeError),
    *(ValueError, TypeError, ArithmeticError, MemoryError, RecursionError),
)


def _unpacked(blob: bytes) -> LintedFile | None:
    """The result; None where the bytes are damaged, or hold something else."""
    try:
        found = _Records(io.BytesIO(zlib.decompress(blob))).load()
    except _DAMAGED:
        return None
    return found if isinstance(found, LintedFile) else None
