"""Finds the place of a finding: a rule names a field of the run or a key, whose origin has file and pointer."""

from __future__ import annotations

from collections.abc import Iterable

from memlint.findings import Location
from memlint.formats.base import Parsed
from memlint.run import Run
from memlint.source.document import Document, Path, Place, Span, place
from memlint.source.lines import Lines

_IN_A_FILE = ("file", "companion", "directive")


def location(document: Document, pointer: Path, on_key: bool = False) -> Location:
    """The place of `pointer`, or of its nearest ancestor that has one. The place of a mapping is that of its key.

    A value that a command takes from a file has its place in that file, and a launcher's setting in the launch file.
    """
    holder = _holder(document, pointer)
    if holder is not document:
        return location(holder, pointer, on_key)
    elsewhere = _elsewhere(document, pointer)
    if elsewhere is not None:
        return elsewhere
    found = place(document, pointer)
    call = _call_around(document, found) if found and on_key else None
    span = call or (_span(document, pointer, found, on_key) if found else Span(0, 0, 1, 1, 1, 1))
    return Location(
        document.path, span.line, span.column, span.end_line, span.end_column, span.start, span.end, pointer
    )


def _elsewhere(document: Document, pointer: Path) -> Location | None:
    """The place of a value that a Python program takes from another of its modules, or from a config."""
    others = document.start.values.elsewhere if document.start is not None else {}
    path, span = others.get(str(pointer[0]), ("", None)) if pointer else ("", None)
    if span is None:
        return None
    return Location(path, span.line, span.column, span.end_line, span.end_column, span.start, span.end, pointer)


def _call_around(document: Document, found: Place) -> Span | None:
    """In Python, the call that names an argument, if the argument's value is written elsewhere: in an option's default
    that has a name of its own."""
    call = document.start.values.sources.get(()) if document.start is not None else None
    if call is None or document.syntax != "python" or call[0] <= found.value.start < call[1]:
        return None
    return _first_line(document, Lines(document.text).span(*call))


def _holder(document: Document, pointer: Path) -> Document:
    """The document that the value of `pointer` is written in: a command's own, its launch file, or the file that the
    command takes the value from."""
    if document.start is None:
        return document
    launch_file = document.start.machine.launch_file
    if isinstance(launch_file, Document) and _is_key_of(launch_file, pointer) and not _is_key_of(document, pointer):
        return _holder(launch_file, pointer)
    name = str(pointer[0]) if pointer else ""
    if _is_key_of(document, pointer) and name not in document.start.values.files:
        return document  # the command's own
    file = document.start.values.file_of(name)
    return document if file is None else file


def _is_key_of(document: Document, pointer: Path) -> bool:
    return bool(pointer) and isinstance(document.value, dict) and pointer[0] in document.value


def _span(document: Document, pointer: Path, found: Place, on_key: bool) -> Span:
    several_lines = found.value.end_line > found.value.line
    if found.key is not None and (on_key or several_lines or pointer not in document.places):
        return found.key
    if several_lines and document.syntax == "python" and not found.key:
        return _first_line(document, found.value)
    return _first_key(document) if several_lines else found.value


def _first_line(document: Document, whole: Span) -> Span:
    """The place that represents a call in Python: its first line."""
    length = len(document.text[whole.start : whole.end].partition("\n")[0])
    return whole._replace(end=whole.start + length, end_line=whole.line, end_column=whole.column + length)


def _first_key(document: Document) -> Span:
    """The place that represents a whole document: its first key."""
    if isinstance(document.value, dict) and document.value:
        first = document.places.get((next(iter(document.value)),))
        if first is not None and first.key is not None:
            return first.key
    return Span(0, 0, 1, 1, 1, 1)


class Finder:
    """Finds the places that rules name, for one run of a parsed file."""

    def __init__(self, parsed: Parsed, run: Run) -> None:
        self.documents = {
            document.path: document for document in reversed(parsed.documents)
        }  # reversed: of several documents with one path the first is kept
        self.main = parsed.documents[0]
        self.parsed = parsed
        self.run = run

    def first(self, names: Iterable[str]) -> Location:
        """The place of the first name that has one, else the start of the main file."""
        for name in names:
            found = self.find(name)
            if found is not None:
                return found
        return location(self.main, ())

    def find(self, name: str) -> Location | None:
        section, *keys = name.split(".")
        if section in self.parsed.raw_places:
            return self._key(section, tuple(keys)) or (self._key(section, (".".join(keys),)) if keys[1:] else None)
        if name in self.parsed.raw:
            return None
        return self._field(name)

    def _key(self, section: str, keys: Path) -> Location | None:
        path, root = self.parsed.raw_places[section]
        document = self.documents.get(path)
        pointer = (*root, *keys)
        if document is None or pointer not in _holder(document, pointer).places:
            return None
        return location(document, pointer)

    def _field(self, name: str) -> Location | None:
        origin = self.run.origins.get(name)
        if origin is None or origin.kind not in _IN_A_FILE:
            return None
        document = self.documents.get(origin.path)
        if document is None:
            return None
        is_key = origin.kind != "directive"  # a `# memlint:` comment belongs to no key
        if is_key and origin.pointer in document.places:
            return location(document, origin.pointer)
        return _line(document, origin.line, origin.column) if origin.line else None


def _line(document: Document, line: int, column: int) -> Location:
    """The place of a `# memlint:` comment, which belongs to no key."""
    return Location(document.path, line, max(1, column), line, max(1, column))
