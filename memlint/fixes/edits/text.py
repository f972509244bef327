"""Lines and spaces around a place in a text."""

from __future__ import annotations

from collections.abc import Iterable


class CannotEdit(ValueError):
    """There is no safe way to make this edit in this file."""


def dotted(path: Iterable[str | int]) -> str:
    """A place as messages name it."""
    return ".".join(map(str, path))


def line_start(text: str, offset: int) -> int:
    """Where the line of `offset` begins."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Where the line of `offset` ends, before its line break."""
    end = text.find("\n", offset)
    end = len(text) if end < 0 else end
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def next_line(text: str, offset: int) -> int:
    """Where the line after the one of `offset` begins; the text's end when there is none."""
    end = text.find("\n", offset)
    return len(text) if end < 0 else end + 1


def indent_of(text: str, offset: int) -> str:
    """The white space before the first character of the line of `offset`."""
    start = line_start(text, offset)
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]


def skipped(text: str, start: int, space: str) -> int:
    """`start` moved on over the characters of `space`."""
    rest = text[start:]
    return start + len(rest) - len(rest.lstrip(space))


def trimmed(text: str, start: int, end: int) -> int:
    """`end` moved back over white space, not before `start`."""
    while end > start and text[end - 1] in " \t\r\n":
        end -= 1
    return end
