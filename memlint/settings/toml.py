"""Reads the table [tool.memlint] of a pyproject.toml as a document with places.

`tomllib` gives values without places, so the places come from a scan of the lines: table headers and `key =`.
Values inside inline tables and arrays have the place of their key.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from memlint.source.document import Document, Path, Place, Problem
from memlint.source.encoding import decode
from memlint.source.lines import Lines

_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\r\n]*"|'[^'\r\n]*')"""
_DOTTED = rf"{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*"
_LINE = re.compile(
    rf"[ \t]*(?:(?P<many>\[)?\[[ \t]*(?P<table>{_DOTTED})[ \t]*\]|(?P<key>{_DOTTED})[ \t]*=[ \t]*(?P<value>[^\r\n]*))"
)
_NAMES = re.compile(_NAME)
_QUOTED = re.compile(  # strings and comments; `opened`: a string that does not end on its line
    r'"""(?:[^\\]|\\.)*?"""|'
    + r"'''.*?'''|"
    + r"""(?P<opened>\"{3}|'{3}).*|"""
    + r'"(?:[^"\\]|\\.)*"|'
    + r"'[^']*'|#.*"
)
_ERROR_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")
_SECTION = ("tool", "memlint")


def section(data: bytes, path: str) -> Document | None:
    """The table as a document; None where the file has none. Invalid TOML becomes a fatal problem of the document."""
    if b"memlint" not in data:
        return None
    decoded = decode(data)
    text, lines = decoded.text, Lines(decoded.text)
    problems = decoded.problems
    value: Any = None
    if not problems:
        value, problem = _parse(text, lines)
        problems = (problem,) if problem else ()
        for name in _SECTION:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None and not problems:
            return None
    places = _places(text, lines)
    return Document(path, text, "toml", "json", _plain(value, 64), places, problems, newline=decoded.newline)


def _parse(text: str, lines: Lines) -> tuple[Any, Problem | None]:
    if sys.version_info >= (3, 11):  # imported here, as few projects keep their settings in pyproject.toml
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
    """The value with dates as text; nesting is cut at `depth`, as in YAML documents."""
    if isinstance(value, dict) and depth:
        return {key: _plain(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list) and depth:
        return [_plain(item, depth - 1) for item in value]
    return value if value is None or isinstance(value, (str, int, float, bool)) else str(value)


def _places(text: str, lines: Lines) -> dict[Path, Place]:
    """The place of each key, by its path below [tool.memlint]; tables of an array of tables are numbered."""
    found: dict[Path, Place] = {(): Place(None, lines.span(0, 0))}
    counts: dict[Path, int] = {}
    table: Path = ()
    until = ""  # the quotes that end a string of several lines
    depth = 0
    for start in lines.starts():
        line = text[start : text.find("\n", start) if text.find("\n", start) >= 0 else len(text)].rstrip("\r")
        if until or depth > 0:
            until, depth = _continues(line, until, depth)
            continue
        match = _LINE.match(line)
        if match is None:
            continue
        if match["table"]:
            table = _names(match["table"])
            if match["many"]:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            _record_place(found, _numbered(table, counts), lines, start, match.span("table"), match.span("table"))
            continue
        until, depth = _continues(match["value"], "", 0)
        path = (*_numbered(table, counts), *_names(match["key"]))
        _record_place(found, path, lines, start, match.span("key"), match.span("value"))
    return found


def _record_place(
    found: dict[Path, Place], path: Path, lines: Lines, start: int, key: tuple[int, int], value: tuple[int, int]
) -> None:
    if path[:2] == _SECTION:
        spot = Place(lines.span(start + key[0], start + key[1]), lines.span(start + value[0], start + value[1]))
        found[path[2:]] = spot


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _NAMES.findall(dotted))


def _numbered(table: Path, counts: dict[Path, int]) -> Path:
    """`[overrides.severity]` after `[[overrides]]` belongs to the last one of them."""
    for end in range(len(table), 0, -1):
        if table[:end] in counts and (end == len(table) or not isinstance(table[end], int)):
            return (*table[:end], counts[table[:end]], *table[end:])
    return table


def _continues(line: str, until: str, depth: int) -> tuple[str, int]:
    """Whether a value continues on the next line: (the quotes that will end its string, number of open brackets)."""
    if until:
        _, closed, line = line.partition(until)
        if not closed:
            return until, depth
    opened = next((found["opened"] for found in _QUOTED.finditer(line) if found["opened"]), "")
    bare = _QUOTED.sub("", line)
    return opened, max(0, depth + bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}"))
