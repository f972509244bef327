"""The line that a finding points at, with a caret under the place, safe to print to any terminal."""

from __future__ import annotations

from unicodedata import category, east_asian_width

from memlint._record import NamedTuple
from memlint.source.lines import Lines

TAB = 4
MAX_COLUMNS = 160
_CUT = "..."


class Excerpt(NamedTuple):
    """`line`: the text as shown. `caret`, `width`: the terminal column (from 0) and columns of what is marked."""

    number: int
    line: str
    caret: int
    width: int


def excerpt(text: str, line: int, column: int, end_line: int, end_column: int) -> Excerpt:
    """The line `line` of `text` with the marked part; a place that runs over several lines marks its first one."""
    source = Lines(text).line(line)
    end = end_column if end_line == line else len(source) + 1
    first = max(0, min(column - 1, len(source)))
    last = max(first, min(end - 1, len(source)))
    cut = max(0, first - MAX_COLUMNS // 2)
    before = (_CUT if cut else "") + shown(source[cut:first])
    longest = MAX_COLUMNS + len(_CUT) + 1  # just long enough that `_fit` still shortens the line and adds "..."
    marked = shown(source[first : min(last, first + longest)], columns(before))
    after = shown(source[last : last + longest], columns(before + marked)) if last <= first + longest else ""
    whole = before + marked + after
    if columns(whole) > MAX_COLUMNS + len(_CUT):
        whole = _fit(whole) + _CUT
    return Excerpt(line, whole, columns(before), max(1, min(columns(marked), columns(whole) - columns(before))))


def shown(text: str, start: int = 0) -> str:
    """`text` with tabs as spaces, and U+FFFD for characters that move the cursor, hide or reorder text."""
    out: list[str] = []
    for character in text:
        if character == "\t":
            out.append(" " * (TAB - (start + columns("".join(out))) % TAB))
        elif category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            out.append("\ufffd")
        else:
            out.append(character)
    return "".join(out)


def columns(text: str) -> int:
    """How many terminal columns printable text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if category(c) in ("Mn", "Me") else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def _fit(text: str) -> str:
    while columns(text) > MAX_COLUMNS:
        text = text[:-1]
    return text
