"""Converts offsets in a text to lines and columns of the Language Server Protocol, and back.

An editor counts lines from 0, and columns in code units of the encoding that it negotiated with the server (UTF-16 by
default). memlint counts lines and columns from 1, in characters. Both end a line at LF, CRLF and CR.
"""

from __future__ import annotations

from lsprotocol.types import Position, Range

from memlint.findings import Location
from memlint.source.document import Span
from memlint.source.lines import Lines

UNITS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}  # bytes of one code unit
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


class Positions:
    """The positions of one text."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self.encoding = encoding if encoding in UNITS else "utf-16"
        self._lines = Lines(text)

    def at(self, offset: int) -> Position:
        """The position of a character, clamped to the text."""
        line, column = self._lines.position(max(0, min(offset, len(self.text))))
        return self._position(line, column)

    def between(self, start: int, end: int) -> Range:
        return Range(self.at(start), self.at(max(start, end)))

    def of(self, place: Location | Span) -> Range:
        """The range of a finding. If it spans several lines or is empty, the range ends with its first line."""
        start = self._position(place.line, place.column)
        if place.end_line == place.line and place.end_column > place.column:
            return Range(start, self._position(place.line, place.end_column))
        line = self._lines.line(place.line)
        return Range(start, self._position(place.line, max(place.column, len(line.rstrip()) + 1)))

    def offset(self, position: Position) -> int:
        """The offset of a position, limited to the end of its line, and of the text."""
        starts = self._lines.starts()
        if position.line >= len(starts):
            return len(self.text)
        line = self._lines.line(position.line + 1)
        return starts[position.line] + self._characters(line, position.character)

    def line(self, number: int) -> str:
        """The text of a line, from 0, without its end."""
        return self._lines.line(number + 1)

    def _position(self, line: int, column: int) -> Position:
        return Position(line - 1, self._units(self._lines.line(line)[: column - 1]))

    def _units(self, text: str) -> int:
        if text.isascii() or self.encoding == "utf-32":
            return len(text)
        return len(text.encode(_CODECS[self.encoding], "surrogatepass")) // UNITS[self.encoding]

    def _characters(self, line: str, units: int) -> int:
        """How many characters of `line` lie wholly before the code unit number `units`."""
        if line.isascii() or self.encoding == "utf-32":
            return min(units, len(line))
        data = line.encode(_CODECS[self.encoding], "surrogatepass")[: units * UNITS[self.encoding]]
        return len(data.decode(_CODECS[self.encoding], "ignore" if self.encoding == "utf-8" else "surrogatepass"))
