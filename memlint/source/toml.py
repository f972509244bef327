"""Parses TOML to located values: `tomllib` gives the values, a scan of the text their places.

A value after `key =` has a place of its own. A value inside an array or an inline table has the place of that key, a
table has the place of its header.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Path, Problem
from memlint.source.layout import Entry
from memlint.source.lines import Lines
from memlint.source.tree import MAX_DEPTH, Tree

_NAME = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\\r\n]|\\.)*"|'[^'\r\n]*')"""
_DOTTED = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_LINE = re.compile(
    rf"[ \t]*(?:(?P<many>\[)?\[[ \t]*(?P<table>{_DOTTED})[ \t]*\]|(?P<key>{_DOTTED})[ \t]*=[ \t]*(?=(?P<value>\S)))"
)
_NAMES = re.compile(_NAME)
_STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' + r"|'''.*?'{3,5}(?!')" + r'|"(?:[^"\\\r\n]|\\.)*"' + r"|'[^'\r\n]*'", re.DOTALL
)
_BARE = re.compile(r"[^\s,#\]}]+(?: \d\d:[^\s,#\]}]+)?")  # a date and its time may have a space between them
_PART = re.compile(r"#[^\r\n]*|[^#\"'\[\]{}]+")  # of a collection: a comment, or what is no string and no bracket
_ERROR_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


class _Spot(NamedTuple):
    """The offsets of a key and of its value."""

    key: tuple[int, int]
    value: tuple[int, int]


def tree(text: str, lines: Lines) -> Tree:
    """The value of a TOML text, or a fatal problem if it is invalid. Dates become text, and deep nesting is cut."""
    value, problem = _parsed(text, lines)
    if problem is not None:
        return Tree(None, (-1, -1, 0, 0, False, None), (problem,))
    plain = _plain(value, MAX_DEPTH)
    return Tree(plain, _entry(plain, (), _Spot((-1, -1), (0, 0)), dict(_spots(text))))


def _parsed(text: str, lines: Lines) -> tuple[Any, Problem | None]:
    if sys.version_info >= (3, 11):  # imported here, as few files are TOML
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(text), None
    except (ValueError, RecursionError) as error:
        at = _ERROR_PLACE.search(str(error))
        starts = lines.starts()
        # An error without a line is "(at end of document)".
        offset = starts[min(int(at[1]), len(starts)) - 1] + int(at[2]) - 1 if at else len(text)
        offset = min(offset, len(text))
        message = _ERROR_PLACE.sub("", str(error)).strip()
        return None, Problem("syntax", f"not TOML: {message}", lines.span(offset, offset), fatal=True)


def _plain(value: Any, depth: int) -> Any:
    if isinstance(value, dict) and depth:
        return {key: _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list) and depth:
        return [_plain(item, depth - 1) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _entry(value: Any, path: Path, around: _Spot, spots: dict[Path, _Spot]) -> Entry:
    spot = spots.get(path) or around._replace(key=(-1, -1))
    below: Any = None
    if isinstance(value, dict):
        below = {key: _entry(item, (*path, key), spot, spots) for key, item in value.items()}
    elif isinstance(value, list):
        below = [_entry(item, (*path, index), spot, spots) for index, item in enumerate(value)]
    return (*spot.key, *spot.value, False, below)


def _spots(text: str) -> Iterator[tuple[Path, _Spot]]:
    """Each table's header and each `key = value` of a valid text, by path; tables of an array are numbered."""
    counts: dict[Path, int] = {}
    table: Path = ()
    at = 0
    while at < len(text):
        match = _LINE.match(text, at)
        end = at
        if match is not None and match["table"]:
            table = _names(match["table"])
            if match["many"]:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            yield _numbered(table, counts), _Spot(match.span("table"), match.span("table"))
        elif match is not None:
            end = value_end(text, match.start("value"))
            path = (*_numbered(table, counts), *_names(match["key"]))
            yield path, _Spot(match.span("key"), (match.start("value"), end))
        line_end = text.find("\n", end)
        at = len(text) if line_end < 0 else line_end + 1


def value_end(text: str, start: int) -> int:
    """The end of the value that starts at `start`; the end of the text if the value is not closed."""
    if text[start] not in "[{":
        found = _STRING.match(text, start) or _BARE.match(text, start)
        return found.end() if found else start
    depth, at = 0, start
    while at < len(text):
        if text[at] in "[{":
            depth, at = depth + 1, at + 1
        elif text[at] in "]}":
            depth, at = depth - 1, at + 1
            if depth == 0:
                return at
        else:
            part = _STRING.match(text, at) or _PART.match(text, at)
            at = part.end() if part else len(text)
    return at


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _NAMES.findall(dotted))


def _numbered(table: Path, counts: dict[Path, int]) -> Path:
    """`[overrides.severity]` after `[[overrides]]` belongs to the last one of them."""
    for end in range(len(table), 0, -1):
        if table[:end] in counts and (end == len(table) or not isinstance(table[end], int)):
            return (*table[:end], counts[table[:end]], *table[end:])
    return table
