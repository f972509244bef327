"""Breaks lines at the width of a terminal: between words, never inside a word, a path, a figure or a piece of code."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.report.terminal import Style, columns

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\")
_QUOTED_SOURCE = re.compile(r"\s*\d* \| ")  # an excerpt's lines: not wrapped, or carets would no longer be below
_LAST_COLUMN = re.compile(r"\S {2,}(?=\S)")
_JOINTS = frozenset(("x", "->", "-", "of", "="))


def wrapped(text: str, width: int) -> str:
    """`text` with each line broken at `width` columns. A word that is wider than that stays whole."""
    return "\n".join(piece for line in text.split("\n") for piece in _broken(line, width))


def fitted(text: str, style: Style) -> str:
    """`text` broken at the width of the terminal, if it goes to one."""
    return wrapped(text, style.width) if style.width else text


def visible(line: str) -> str:
    """`line` without the escapes that colour it or make links of it."""
    return _ESCAPE.sub("", line)


def _broken(line: str, width: int) -> Iterator[str]:
    shown = visible(line)
    if columns(shown) <= width or _QUOTED_SOURCE.match(shown):
        yield line
        return
    start = len(shown) - len(shown.lstrip(" "))
    hang = _continuation_indent(shown, start, width)
    last = _last_column(line, hang, width)
    if last:  # a table row whose last column begins far to the right: that column moves to lines of its own
        yield line[:last].rstrip(" ")
        yield " " * hang + line[last:]
        return
    current, used, only_indent = " " * start, start, True
    for gap, word in _words(line[start:] if line[:start].isspace() or not start else line.lstrip(" "), width - hang):
        size = columns(visible(word))
        if not only_indent and used + len(gap) + size > width:
            yield current
            current, used, gap = " " * hang, hang, ""
        current += gap + word
        used += len(gap) + size
        only_indent = False
    yield current


def _continuation_indent(shown: str, start: int, width: int) -> int:
    """The indent of the continuation lines: that of the last column of a table row, else that of the first line."""
    ends = [found.end() for found in _LAST_COLUMN.finditer(shown) if found.end() <= 0.4 * width]
    return ends[-1] if ends else start


def _last_column(line: str, hang: int, width: int) -> int:
    """The offset of the last column of a table row, if it can move to its own lines: the rest of the row fits, and so
    does the column below it. Else 0."""
    ends = [found.end() for found in _LAST_COLUMN.finditer(line)]
    fits = ends and hang < ends[-1] <= width and hang + columns(line[ends[-1] :]) <= width
    return ends[-1] if fits and "\x1b" not in line else 0


def _words(line: str, room: int) -> Iterator[tuple[str, str]]:
    """(spaces before it, text) of each piece that is not broken, such as a word, a figure or code in backquotes.

    A piece that is wider than `room` columns is split into its words.
    """
    group: list[tuple[str, str]] = []
    for gap, word in re.findall(r"( *)([^ ]+)", line):
        if group and not _belongs_to_group(group, word):
            yield from _whole(group, room)
            group = []
        group.append((gap, word))
    yield from _whole(group, room)


def _whole(group: list[tuple[str, str]], room: int) -> Iterator[tuple[str, str]]:
    joined = "".join(gap + word for gap, word in group[1:])
    if group and columns(visible(group[0][1] + joined)) <= room:
        yield group[0][0], group[0][1] + joined
    else:
        yield from group


def _belongs_to_group(group: list[tuple[str, str]], word: str) -> bool:
    """Whether `word` must stay on one line with the words of `group`: they form a figure ("86.27 -> 37.47 GiB",
    "8 x A100-80GB") or code in backquotes."""
    before = visible(group[-1][1])
    if visible(" ".join(word for _, word in group)).count("`") % 2:
        return True
    return _is_figure(before) or (before in _JOINTS and len(group) > 1)


def _is_figure(word: str) -> bool:
    """Whether a word is a number, which its unit or joint ("->", "x") must follow on the same line."""
    return word.lstrip("([`+-<>~")[:1].isdigit() and word[-1] not in ",;:.)`]"
