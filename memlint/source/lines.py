"""Converts offsets to lines and columns. A line ends with LF, CRLF or CR, as editors and code hosts count them.

libyaml counts NEL, LS and PS as line ends as well; positions are therefore taken from its offsets alone.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate

from memlint.source.document import Span

_LINE_END = r"\r\n?|\n"


class Lines:
    """The line starts of one text, found when first asked for."""

    __slots__ = ("_starts", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts: list[int] | None = None

    def starts(self) -> list[int]:
        if self._starts is None:
            self._starts = _starts(self._text)
        return self._starts

    def span(self, start: int, end: int) -> Span:
        starts = self.starts()
        line = bisect_right(starts, start)
        column = start - starts[line - 1] + 1
        if line == len(starts) or end < starts[line]:  # most values end on the line that they start on
            return Span(start, end, line, column, line, column + end - start)
        end_line = bisect_right(starts, end)
        return Span(start, end, line, column, end_line, end - starts[end_line - 1] + 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, 1-based."""
        starts = self.starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a 1-based line without its end; "" if there is no such line."""
        starts = self.starts()
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self._text)
        return self._text[starts[number - 1] : end].rstrip("\r\n")


def _starts(text: str) -> list[int]:
    if "\r" in text:
        return [0, *(end.end() for end in re.finditer(_LINE_END, text))]
    lengths = [len(line) + 1 for line in text.split("\n")]  # most files have no carriage return: five times as fast
    return list(accumulate(lengths[:-1], initial=0))


def span_at(text: str, start: int, end: int | None = None) -> Span:
    """The span of `text[start:end]`, clamped to the text; of one character without `end`."""
    start = max(0, min(start, len(text)))
    end = start + 1 if end is None else end
    return Lines(text).span(start, max(start, min(end, len(text))))
