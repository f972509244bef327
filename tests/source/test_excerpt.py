from __future__ import annotations

import pytest

from memlint.source.excerpt import MAX_COLUMNS, columns, excerpt, shown


@pytest.mark.parametrize(
    ("line", "start", "end", "drawn", "caret", "width"),
    [
        ("a: 12", 4, 6, "a: 12", 3, 2),
        ("\ta: 12", 5, 7, "    a: 12", 7, 2),
        ("日本: 12", 5, 7, "日本: 12", 6, 2),
        ("a: \x1b[31m", 4, 9, "a: \ufffd[31m", 3, 5),
        ("a: x\u202ey", 4, 7, "a: x\ufffdy", 3, 3),
        ("a:", 3, 3, "a:", 2, 1),
    ],
)
def test_caret_columns(line: str, start: int, end: int, drawn: str, caret: int, width: int) -> None:
    assert excerpt(f"# head\n{line}\nend", 2, start, 2, end) == (2, drawn, caret, width)


def test_a_long_line_is_cut_around_the_place() -> None:
    line = "x" * 10_000 + "HERE" + "y" * 10_000
    cut = excerpt(line, 1, 10_001, 1, 10_005)

    assert columns(cut.line) <= MAX_COLUMNS + 6
    assert cut.line[cut.caret : cut.caret + cut.width] == "HERE"


def test_several_lines_mark_the_first() -> None:
    assert excerpt("a: [1,\n 2]", 1, 4, 2, 4) == (1, "a: [1,", 3, 3)


def test_a_place_outside_of_the_text_is_harmless() -> None:
    assert excerpt("a", 9, 5, 9, 9).line == ""


def test_nothing_that_moves_the_cursor_is_shown() -> None:
    assert shown("".join(map(chr, range(32)))).isprintable()
