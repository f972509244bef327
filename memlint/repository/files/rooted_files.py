"""The files below one root. Nothing outside of it is read, not even through links.

A file has three names: its absolute path, its name relative to the root (as git lists it), and the path that messages
show, relative to the working directory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from functools import lru_cache

import memlint.file_access as file_access
from memlint.formats.references import Files
from memlint.repository.versions.pins import MOST_BYTES
from memlint.source import load
from memlint.source.document import Document
from memlint.source.encoding import decode

ReadBytes = Callable[[str], bytes]
MOST_STEPS = 12  # parts of an author's path that are searched in the repository
_CONFIGS = (".yaml", ".yml", ".json", ".toml")


class RootedFiles:
    """`root`, `cwd`: real paths. `files`: what exists. `load_bytes`: bytes by absolute path; raises OSError."""

    def __init__(self, root: str, cwd: str, files: Files, load_bytes: ReadBytes) -> None:
        self.root = root
        self.cwd = cwd
        self.load_bytes = load_bytes
        self.files = files
        self._below = root.rstrip("/") + "/"
        self._folders: dict[str, str] = {}  # their real paths
        self.absolute = lru_cache(maxsize=16)(self._absolute)  # asked several times for each file

    def is_inside(self, real: str) -> bool:
        return real.startswith(self._below)

    def _absolute(self, path: str) -> str:
        """The absolute path of a path relative to the working directory."""
        return posixpath.normpath(posixpath.join(self.cwd, path))

    def at(self, name: str) -> str:
        """The absolute path of a name relative to the root; a path below the root is one already."""
        return name if name.startswith(self._below) else self._below + name

    def inner(self, absolute: str) -> str:
        """The name relative to the root of an absolute path; unchanged if it is not below the root."""
        return absolute.removeprefix(self._below)

    def name(self, path: str) -> str:
        """`path` relative to the root, as the repository lists it: a link is not resolved."""
        folder, _, name = self.absolute(path).rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self.files.realpath(folder or "/").rstrip("/")
        return self.inner(f"{self._folders[folder]}/{name}")

    def display_path(self, path: str) -> str:
        """`path` as messages show it: relative to the working directory where it is below that."""
        return path.removeprefix(self.cwd.rstrip("/") + "/")

    def display_name(self, name: str) -> str:
        return self.display_path(posixpath.join(self.root, name))

    def tracked_bytes(self, path: str) -> bytes:
        """A file's bytes by absolute path. Raises OSError, also for a link that leads out of the root."""
        self._refuse_outside(path)
        file_access.share(path)
        return self.load_bytes(path)

    def unshared_bytes(self, path: str) -> bytes:
        """Like `tracked_bytes`, where the caller notes what other results depend on (`file_access.note`)."""
        self._refuse_outside(path)
        return self.load_bytes(path)

    def has_word(self, path: str, words: tuple[str, ...], most: int) -> bool:
        """Whether a file, by absolute path, has at most `most` bytes and one of `words`. Raises OSError as
        `tracked_bytes` does. Other results depend on this answer alone, not on all that stands in the file."""
        return file_access.has_word(path, self.unshared_bytes(path), words, most)

    def _refuse_outside(self, path: str) -> None:
        if not self.files.exists(path):
            raise FileNotFoundError(path)
        if not self.is_inside(self.files.realpath(path)):
            raise OSError(f"{path} is a link that leads outside of {self.root}")

    def text(self, path: str) -> str | None:
        """A file's text by absolute path; None for what cannot be read or lies outside of the root."""
        try:
            return decode(self.tracked_bytes(path)).text
        except OSError:
            return None

    def small_text(self, path: str) -> str | None:
        """The text of a file below the root; None where there is none or it is larger than `MOST_BYTES`."""
        if not self.files.is_file(path) or not self.is_inside(self.files.realpath(path)):
            return None
        file_access.share(path)
        try:
            data = self.load_bytes(path)
        except OSError:
            return None
        return data.decode("utf-8", "replace") if len(data) <= MOST_BYTES else None

    def config(self, name: str) -> Document | None:
        """A YAML, JSON or TOML file by its name relative to the root, or by its path below the root, which a script
        makes of its own place: `$(cd "$(dirname "$0")" && pwd)/config.yaml`."""
        if not name.endswith(_CONFIGS):
            return None
        try:
            return load(self.tracked_bytes(self.at(name)), self.inner(name))[0]
        except OSError:
            return None

    def find(self, folder: str, path: str, kind: str) -> str | None:
        """The file or folder that an absolute path in a script of `folder` means.

        Scripts contain paths of their authors' machines: if the path does not exist, it is the file with the same end
        below the script's folder or one around it.
        """
        if self.is_inside(f"{path}/"):
            return path if self._is_there(path, kind) else None
        parts = path.strip("/").split("/")[-MOST_STEPS:]
        bases = [folder]
        while bases[-1] != self.root and self.is_inside(bases[-1]):
            bases.append(posixpath.dirname(bases[-1]))
        for start in range(len(parts)):
            for base in reversed(bases):
                place = posixpath.join(base, *parts[start:])
                if self._is_there(place, kind):
                    return place
        return self.root if kind == "folder" and parts[-1] == posixpath.basename(self.root) else None

    def _is_there(self, path: str, kind: str) -> bool:
        if "/.." not in path and not self.files.exists(path):
            return False
        real = self.files.realpath(path)
        if not self.is_inside(f"{real}/"):
            return False
        is_file = kind != "folder" and self.files.is_file(real)
        return is_file if kind == "file" else is_file or self.files.exists(real)
