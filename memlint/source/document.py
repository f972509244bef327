"""Located values: the output of `source/`, which every later stage points back to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple

Path = tuple[str | int, ...]


class Span(NamedTuple):
    """A half-open range of a document's text. Offsets count characters; lines and columns are 1-based."""

    start: int
    end: int
    line: int
    column: int
    end_line: int
    end_column: int


class Place(NamedTuple):
    """The place of one value. `key` is None for list items and the document's root."""

    key: Span | None
    value: Span


class Comment(NamedTuple):
    """`text` is what follows the `#`, stripped. `own_line`: only space is before it on its line."""

    text: str
    span: Span
    own_line: bool


class Problem(NamedTuple):
    """Something wrong with the text itself. `code` is a short id ("duplicate-key"), `fatal`: there is no value.

    `severity` is "error" where the file's consumer refuses it or reads another value than the text says, and
    "warning" where the consumer goes on with a value that may not be the intended one.
    """

    code: str
    message: str
    span: Span
    related: Span | None = None
    fatal: bool = False
    severity: str = "error"


class Document(NamedTuple):
    """One document of a file.

    `value` is made of dict, list, str, int, float, bool and None under `dialect` (`yaml11` as PyYAML
    reads it, `omegaconf`, `yaml12`, `json`). `places` maps the path of each value to its place.
    `text` is the decoded text without BOM; `encoding`, `bom` and `newline` are kept for writing.
    """

    path: str
    text: str
    syntax: str  # yaml, json
    dialect: str
    value: Any
    places: Mapping[Path, Place]
    problems: tuple[Problem, ...] = ()
    index: int = 0  # type: ignore[assignment]  # which document of a multi-document file
    documents: int = 1
    encoding: str = "utf-8"
    bom: bool = False
    newline: str = "\n"
    plain: Mapping[Path, str] = {}  # raw text of plain scalars, so that another dialect can read them
    aliases: tuple[Path, ...] = ()  # paths whose value is an alias of an anchor


def place(document: Document, path: Path) -> Place | None:
    """The place of `path`, or of its nearest ancestor that has one."""
    while path not in document.places:
        if not path:
            return None
        path = path[:-1]
    return document.places[path]
