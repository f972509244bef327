"""The documents that an editor has open, and the bytes that replace their files while they have unsaved changes.

A document whose text equals that of its file is read from the file, so that encoding, byte order mark and invalid
bytes are judged as by `memlint check`. Any other document is encoded like its file.
"""

from __future__ import annotations

import os

from pygls.uris import from_fs_path, to_fs_path

from memlint._record import NamedTuple
from memlint.lint.select_files import display_path
from memlint.repository.workspace import read_bytes
from memlint.source.encoding import Decoded, decode


class Buffer(NamedTuple):
    """An open document. `path`: as in reports. `real`: the path with links resolved. `saved`: the file's content."""

    uri: str
    path: str
    real: str
    version: int | None
    text: str
    saved: Decoded | None = None


class Buffers:
    """The open documents by path, and `unsaved`: the bytes of those that differ from their files, by real path."""

    def __init__(self) -> None:
        self.unsaved: dict[str, bytes] = {}
        self._by_path: dict[str, Buffer] = {}

    def __getitem__(self, path: str) -> Buffer:
        return self._by_path[path]

    def get(self, path: str) -> Buffer | None:
        return self._by_path.get(path)

    def __contains__(self, path: str) -> bool:
        return path in self._by_path

    def paths(self) -> tuple[str, ...]:
        """The open documents, the one that changed last first."""
        return tuple(reversed(self._by_path))

    def put(self, uri: str, version: int | None, text: str, from_disk: bool = False) -> Buffer | None:
        """Opens or changes a document; None if it is not a file. `from_disk`: read the file again as well."""
        path = path_of(uri)
        if path is None:
            return None
        before = self._by_path.pop(path, None)
        real = os.path.realpath(path).replace(os.sep, "/")
        saved = _on_disk(real) if before is None or from_disk else before.saved
        buffer = self._by_path[path] = Buffer(uri, path, real, version, text, saved)
        if saved is not None and text == saved.text:
            self.unsaved.pop(real, None)
        else:
            self.unsaved[real] = _encoded(text, saved)
        return buffer

    def reread(self, path: str) -> None:
        """Reads the file of an open document again, because it may have changed."""
        buffer = self._by_path[path]
        self.put(buffer.uri, buffer.version, buffer.text, from_disk=True)

    def close(self, uri: str) -> str | None:
        """Closes a document, so that its file is read from disk again. Returns its path, None if it was not open."""
        path = path_of(uri)
        buffer = self._by_path.pop(path, None) if path is not None else None
        if buffer is None:
            return None
        self.unsaved.pop(buffer.real, None)
        return buffer.path


def path_of(uri: str) -> str | None:
    """The path of a document as in reports; None if it is not a file (untitled, or a cell of a notebook)."""
    if not uri.startswith("file:"):
        return None
    path = to_fs_path(uri)
    return display_path(path) if path else None


def uri_of(path: str) -> str:
    """The URI of the file at `path` (as in reports)."""
    return str(from_fs_path(os.path.abspath(path)))


def _on_disk(real: str) -> Decoded | None:
    try:
        return decode(read_bytes(real))
    except OSError:
        return None


def _encoded(text: str, saved: Decoded | None) -> bytes:
    if saved is None or any(problem.code == "encoding" for problem in saved.problems):
        return text.encode("utf-8", "surrogatepass")
    return (("\ufeff" if saved.bom else "") + text).encode(saved.encoding, "surrogatepass")
