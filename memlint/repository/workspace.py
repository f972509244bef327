"""The files that a check may read: below one root, each once, with bounds; and the models that they name.

This is where the stages without I/O get their doors: `Context.read` and `Context.find_model`.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import memlint.repository.tracked as tracked_by
from memlint.architectures.model import Resolution
from memlint.architectures.resolve import resolve
from memlint.formats.base import Context, Launch
from memlint.formats.references import Files, reader
from memlint.repository.pins import FILES, MOST_BYTES, Pin, pinned, pins
from memlint.source import load
from memlint.source.document import Document
from memlint.source.encoding import MAX_BYTES

MAX_CACHED = 64  # documents kept: those of the file at hand, and companions that many files share

if TYPE_CHECKING:
    from memlint.repository.launch.index import Launching
    from memlint.repository.python_arguments import Python

ReadBytes = Callable[[str], bytes]


def read_bytes(path: str) -> bytes:
    """The file's bytes, at most one more than memlint reads (so that the loader can refuse it). Raises OSError.

    Pipes and devices are refused: opening one can hang.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        return stream.read(MAX_BYTES + 1)


class Workspace:
    """`root`: nothing outside of it is read through a reference. `models`, `hub`, `exact`: as architectures.resolve.

    `python` lists the Python files below the root, `tracked` names what belongs to the repository there.
    """

    def __init__(
        self,
        root: str,
        cwd: str,
        files: Files,
        load_bytes: ReadBytes,
        models: Mapping[str, str | dict[str, Any]] | None = None,
        hub: bool = False,
        exact: bool = False,
        python: Callable[[], Iterable[str]] = tuple,
        tracked: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self.root = root
        self.cwd = cwd
        self._files = files._replace(read=self._referenced)
        self._load_bytes = load_bytes
        self._models = models or {}
        self._hub = hub
        self._exact = exact
        self._python = python
        self._surveyed: list[Python] = []  # one at most, shared with every overlay
        self._tracked = tracked
        self._launched: list[Launching] = []  # one at most
        self._folders: dict[str, str] = {}  # their real paths
        self._documents: dict[str, tuple[Document, ...]] = {}
        self._resolutions: dict[tuple[str, str], Resolution] = {}
        self._pins: dict[str, dict[str, Pin]] = {}
        self._pinned: dict[str, dict[str, Pin]] = {}

    def documents(self, path: str) -> tuple[Document, ...]:
        """The documents of a file that was named or discovered; their path is `path`. Raises OSError."""
        found = self._documents.pop(path, None)
        if found is None:
            found = load(self._load_bytes(self._absolute(path)), path)
            if len(self._documents) >= MAX_CACHED:
                del self._documents[next(iter(self._documents))]  # the one that was not asked for the longest
        self._documents[path] = found
        return found

    def overlaid(self, contents: Mapping[str, bytes]) -> Workspace:
        """The same files, with other bytes in those that `contents` names (as documents are named).

        What was read lately is not read again: a file that changes on disk meanwhile is judged as it was.
        """
        changed = {self._absolute(path): data for path, data in contents.items()}
        original = self._load_bytes

        def load_bytes(path: str) -> bytes:
            return changed[path] if path in changed else original(path)

        other = Workspace(
            *(self.root, self.cwd, self._files, load_bytes, self._models, self._hub, self._exact),
            *(self._python, self._tracked),
        )
        other._resolutions, other._surveyed = self._resolutions, self._surveyed
        names = {path.rpartition("/")[2] for path in changed}  # most paths need no closer look
        if self._launched and not _any_shows_commands(names):
            other._launched = self._launched
        if names.isdisjoint(FILES):
            other._pins, other._pinned = self._pins, self._pinned
        other._documents = {
            path: found
            for path, found in self._documents.items()
            if path.rpartition("/")[2] not in names or self._absolute(path) not in changed
        }
        return other

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.cwd, path))

    def context(self, **facts: Any) -> Context:
        """The doors, with what is known besides the files (`gpu=`, `gpus=`, ... as in `Context`)."""
        doors: dict[str, Any] = {"find_model": self.find_model, "declared": self.declared, "parsers": self.parsers}
        doors |= {"launches": self.launches, "launchers": self.launchers, "own_reader": self.own_reader}
        return Context(reader(self.cwd, self.root, self._files), **{**doors, **facts})

    def declared(self, key: str, below: str = "") -> str:
        """How dataclasses of the repository's Python declare `key`, in files whose path has the folders `below`: all of
        them, for a collection of projects may hold several copies of a framework."""
        found = self._survey().fields.get(key, ())
        return "\n".join(one.text for one in found if f"/{below}/" in one.path or not below)

    def find_model(self, name: str, from_path: str, models: Mapping[str, Any] | None = None) -> Resolution:
        """The architecture behind a name in the file at `from_path`; local folders are looked up beside it.

        `models` maps names to folders or configs for this file alone, as its settings do.
        """
        folder = posixpath.dirname(self._absolute(from_path))
        if models:
            return resolve(name, (self.cwd, folder), models, self._hub, self._exact)
        if (name, folder) not in self._resolutions:
            found = resolve(name, (self.cwd, folder), self._models, self._hub, self._exact)
            self._resolutions[name, folder] = found
        return self._resolutions[name, folder]

    def parsers(self) -> frozenset[str]:
        """The argument parsers that the repository's Python makes: TrlParser, HfArgumentParser, H4ArgumentParser."""
        return self._survey().parsers

    def own_reader(self) -> bool:
        """Whether the repository's Python loads YAML itself and makes no argument parser that could read a file."""
        return self._survey().reads_yaml and not self._survey().parsers

    def launches(self, path: str) -> tuple[Launch, ...]:
        """The commands of the repository's scripts and pages that launch the config at `path`."""
        found = self._launching().launches(self._name(path), self.documents(path)[0].text)
        shown = self._shown_name
        return tuple(
            one._replace(
                path=shown(one.path),
                config_file=shown(one.config_file) if one.config_file else "",
                deepspeed=shown(one.deepspeed) if one.deepspeed else "",
            )
            for one in found
        )

    def launchers(self, path: str) -> tuple[str, ...]:
        """The repository's launch files, the likeliest for the config at `path` first."""
        return tuple(map(self._shown_name, self._launching().files(self._name(path))))

    def _launching(self) -> Launching:
        if not self._launched:
            from memlint.repository.launch.index import Launching  # where a run leaves its engine or GPUs open

            opened = Launching(self.root, self._tracked(), self._tracked_bytes, self._referenced)
            self._launched.append(opened)
        return self._launched[0]

    def _tracked_bytes(self, path: str) -> bytes:
        """A tracked file's bytes; one that is a link out of the root is not read. Raises OSError."""
        if not self._is_inside(self._files.realpath(path)):
            raise OSError(f"{path} is a link that leads outside of {self.root}")
        return self._load_bytes(path)

    def _name(self, path: str) -> str:
        """`path` counted from the root, as the repository lists it: a link by its own name."""
        folder, _, name = self._absolute(path).rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._files.realpath(folder or "/").rstrip("/")
        real = f"{self._folders[folder]}/{name}"
        return real[len(self.root.rstrip("/")) + 1 :] if self._is_inside(real) else real

    def _shown_name(self, name: str) -> str:
        return self.shown(posixpath.join(self.root, name))

    def _survey(self) -> Python:
        if not self._surveyed:
            from memlint.repository.python_arguments import survey  # where a file has keys of the repository's own

            self._surveyed.append(survey(self._python(), self._load_bytes))
        return self._surveyed[0]

    def pins(self, path: str) -> Mapping[str, Pin]:
        """Framework versions that the repository pins for the file at `path`, nearest first."""
        folder = posixpath.dirname(self._absolute(path))
        if folder not in self._pins:
            self._pins[folder] = pins(folder, self.root, self._pinned_in)
        return self._pins[folder]

    def _pinned_in(self, folder: str) -> Mapping[str, Pin]:
        if folder not in self._pinned:
            self._pinned[folder] = {
                name: pin._replace(origin=pin.origin._replace(path=self.shown(pin.origin.path)))
                for name, pin in pinned(folder, self._text).items()
            }
        return self._pinned[folder]

    def _text(self, path: str) -> str | None:
        """A file's text, where it is a file of bearable size that lies below the root."""
        if not self._files.is_file(path) or not self._is_inside(self._files.realpath(path)):
            return None
        try:
            data = self._load_bytes(path)
        except OSError:
            return None
        return data.decode("utf-8", "replace") if len(data) <= MOST_BYTES else None

    def _is_inside(self, real: str) -> bool:
        return real.startswith(self.root.rstrip("/") + "/")

    def _referenced(self, real: str) -> Document:
        return self.documents(self.shown(real))[0]

    def shown(self, path: str) -> str:
        """`path` as messages call it: relative to the working directory where it lies below."""
        prefix = self.cwd.rstrip("/") + "/"
        return path[len(prefix) :] if path.startswith(prefix) else path


def on_disk(
    root: str, cwd: str, models: Mapping[str, Any] | None = None, hub: bool = False, exact: bool = False
) -> Workspace:
    """The real file system; `root` and `cwd` are absolute."""
    files = Files(os.path.isfile, os.path.exists, _realpath, _unset)
    inside = _realpath(root)
    doors = partial(_python_files, inside), partial(_tracked_files, inside)
    return Workspace(inside, _realpath(cwd), files, read_bytes, models, hub, exact, *doors)


def _any_shows_commands(names: Iterable[str]) -> bool:
    from memlint.repository.launch.pages import shows_commands

    return any(map(shows_commands, names))


def _python_files(root: str) -> Iterable[str]:
    from memlint.repository.python_arguments import python_files

    return python_files(root)


def _tracked_files(root: str) -> Iterable[str]:
    return tracked_by.Tracked(root).files()


def in_memory(contents: Mapping[str, str], models: Mapping[str, Any] | None = None) -> Workspace:
    """Files that exist only here, by name: for examples and tests. They lie in the folder `/`."""
    names = {f"/{name.lstrip('/')}": text for name, text in contents.items()}

    def read(path: str) -> bytes:
        if path not in names:
            raise FileNotFoundError(path)
        return names[path].encode("utf-8", "surrogatepass")

    files = Files(names.__contains__, names.__contains__, posixpath.normpath, _unset)
    python = [name for name in names if name.endswith(".py")]
    tracked = [name[1:] for name in names]
    return Workspace("/", "/", files, read, models, python=python.copy, tracked=tracked.copy)


def _realpath(path: str) -> str:
    return os.path.realpath(path).replace(os.sep, "/")


def _unset(path: str) -> Document:
    raise NotImplementedError  # a Workspace reads through its own cache
