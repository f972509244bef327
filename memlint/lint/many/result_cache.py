"""Caches the results of a check, so that an unchanged tree is not checked again.

There is one cache file per invocation: working directory, paths, options, environment, versions of memlint and of the
packages that it imports. It stores everything that the check asked the disk (recorded by memlint.file_access), with
the answers: contents of files, absent files, lists of files; also whether the date of each suppression had passed. If
all of these answers are the same now, the stored result of each file with unchanged content is valid. If any differs,
none is, and everything is checked.

A cache file is not trusted: it may be damaged, or written by another program or user. Nothing in it is executed, and
anything malformed counts as absent. Failures to write it are ignored.
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
from memlint.repository.files.discovery import FoundFile
from memlint.repository.files.tracked import Tracked
from memlint.repository.files.walk import files_below
from memlint.repository.reader.python_arguments import python_files
from memlint.run import UNKNOWN
from memlint.shipped_data import PACKAGE, folder
from memlint.source.encoding import MAX_BYTES

FORMAT = b"memlint results 1\n"
SUFFIX = ".results"
_CHECKED = f"bytes {MAX_BYTES + 1}"  # the question under which file_access records the reading of a checked file
# Nothing is kept of a check of more files: what a result depends on takes 3 KiB of memory per file, and a scan of
# 100,000 files is to stay below 120 MiB (benchmarks/speed/scan.py).
MOST_FILES = 20_000
KEPT_DAYS = 30  # a cache file that was last written longer ago is deleted
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
    """Whether the results of a check of `files` files are kept. They must depend only on files and options: not on the
    network, plug-ins, PyTorch or standard input."""
    facts = request.facts
    needs_more = facts.hub or facts.exact or request.plugins or request.contents or request.what_if
    return files <= MOST_FILES and not needs_more


class ResultCache:
    """The cached results of one invocation: `request` for `paths`."""

    def __init__(self, cache_folder: str, request: LintRequest, paths: Sequence[str]) -> None:
        file_access.shorten(digest)
        self._path = os.path.join(cache_folder, f"{_key(request, paths)}{SUFFIX}")

    def lint(self, files: Sequence[FoundFile], lint: _Lint) -> Iterator[LintedFile]:
        """Yields the result of each file, in order, and at the end writes the cache file.

        `lint`: checks the files that have no valid result. Raises what it raises.
        """
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
            if not linted.report.failed:
                blobs[key] = _packed(linted)
            yield linted
        if blobs or (stored is not None and len(held) < len(stored.files)):
            self._keep(stored, held, blobs)

    def _keep(self, stored: _Stored | None, held: set[str], blobs: Mapping[str, bytes]) -> None:
        recorded = file_access.take()
        shared = dict(stored.shared) if stored is not None and held else {}
        contents = {path: str(answer) for (_, path), answer in recorded.own.items()}
        wanted = {key[1:] for key in (*held, *blobs)}
        for (kind, path), answer in _as_stored(recorded.shared):
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


def _as_stored(answers: file_access.Answers) -> Iterator[tuple[tuple[str, str], str]]:
    """The answers as the cache file stores them: the digest in place of contents."""
    return ((key, answer if isinstance(answer, str) else digest(answer)) for key, answer in answers.items())


def digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _file_key(item: FoundFile) -> str:
    """The key of a file's result: a digit and the absolute path, such as "1/home/alice/train.yaml".

    0: found in a folder. 1: named by the user. 2: named, and a symbolic link, for which the versions count that the
    repository of its target pins.
    """
    return f"{int(item.named) + int(item.named and os.path.islink(item.path))}{os.path.abspath(item.path)}"


def _key(request: LintRequest, paths: Sequence[str]) -> str:
    """The digest of everything that identifies an invocation: the name of its cache file."""
    environment = {name: os.environ.get(name) for name in _ENVIRONMENT}
    python = (sys.version, sys.platform, sys.flags.utf8_mode, sys.getfilesystemencoding())
    asked = (FORMAT, __version__, _code_state(), request, os.getcwd(), tuple(paths), environment, python)
    return digest(repr(asked).encode("utf-8", "backslashreplace"))


def _code_state() -> list[str]:
    """Size and modification time of each file of memlint, and the time of the folder where its dependencies are."""
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
    """A cache file that was read.

    `shared`: (question, path) -> answer, for what all results depend on. `files`: key of the file -> (digest of its
    content, offset and length of its result in `data`).
    """

    data: bytes
    shared: Mapping[tuple[str, str], str]
    files: Mapping[str, tuple[str, int, int]]

    def holds(self, key: str) -> bool:
        """Whether there is a result for the file's present content."""
        return key in self.files and _answer_now(_CHECKED, key[1:]) == self.files[key][0]

    def blob(self, key: str) -> bytes:
        _, start, length = self.files[key]
        return self.data[start : start + length]

    def result(self, key: str) -> LintedFile | None:
        return _unpacked(self.blob(key))


def _read(path: str) -> _Stored | None:
    """The cache file at `path`; None if it is unusable or if any answer in it differs from the present one."""
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
    return _Stored(data, shared, files) if all(_answer_now(*key) == answer for key, answer in shared.items()) else None


def _answer_now(kind: str, path: str) -> str | None:
    """The present answer of the disk (or, to "past", of the calendar) to one question about `path`.

    "": the path cannot be read. None: a question that this version does not know.
    """
    question, _, about = kind.partition(" ")
    try:
        if question == "bytes":
            return digest(file_access.regular(path, int(about)))
        if question == "words":
            most, _, words = about.partition(" ")
            data = file_access.regular(path, MAX_BYTES + 1)
            return str(file_access.is_short_with(data, tuple(words.split("/")), int(most)))
        if question == "among":
            return "/".join(sorted(file_access.names_among(path, frozenset(about.split("/")))))
        return _QUESTIONS[kind](path)
    except (OSError, ValueError):
        return ""
    except KeyError:
        return None


def _names_digest(found: Iterable[str]) -> str:
    return digest(os.fsencode("\0".join(found)))


def _written_folders(path: str) -> str:
    from memlint.repository.written_models import output_folders  # where a result depends on them

    return "/".join(output_folders(file_access.regular(path, MAX_BYTES + 1)))


_QUESTIONS: Mapping[str, Callable[[str], str]] = {
    "file": lambda path: str(os.path.isfile(path)),
    "folder": lambda path: str(os.path.isdir(path)),
    "exists": lambda path: str(os.path.exists(path)),
    "real": os.path.realpath,
    "listed": lambda path: _names_digest(sorted(os.listdir(path))),
    "repository": lambda path: str(Tracked(path).is_repository),
    "below": lambda path: _names_digest(files_below(path)),
    "tracked": lambda path: _names_digest(Tracked(path).files()),
    "python": lambda path: _names_digest(python_files(path)),
    "writes": _written_folders,
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


class _RecordUnpickler(pickle.Unpickler):
    """An unpickler that refuses everything but plain values and memlint's own records, so that nothing is executed."""

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
    """The result in `blob`; None if the bytes are damaged or hold something else."""
    try:
        found = _RecordUnpickler(io.BytesIO(zlib.decompress(blob))).load()
    except _DAMAGED:
        return None
    return found if isinstance(found, LintedFile) else None
