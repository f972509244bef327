"""Where lines are broken: never inside a word, a figure, a piece of code; nothing is lost or added."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.report.terminal import Style, columns
from memlint.report.text import window
from memlint.report.wrap import fitted, visible, wrapped

WORDS = st.lists(
    st.one_of(
        st.text("abcXYZ0179äß中語-_/.,;:()[]%=", min_size=1, max_size=20),
        st.sampled_from(
            ["86.27", "->", "37.47", "GiB", "(32.90", "-", "41.21", "of", "79.15);", "8", "x", "`a:", "1`"]
        ),
    ),
    max_size=30,
)


@given(WORDS, st.integers(0, 12), st.integers(40, 200))
def test_words_stay_whole_and_in_order(words: list[str], indent: int, width: int) -> None:
    line = " " * indent + " ".join(words)

    lines = wrapped(line, width).split("\n")

    assert " ".join(lines).split() == words
    for piece in lines:
        assert columns(piece) <= width or len(piece.split()) == 1 or " | " in line


@pytest.mark.parametrize("width", range(40, 120))
def test_a_figure_stays_on_one_line(width: int) -> None:
    figures = (
        "86.27 -> 37.47 GiB",
        "(32.90 - 41.21 of 79.15)",
        "8 x A100-80GB",
        "70 %",
        "`bf16: true`",
        "1.54 billion",
    )
    line = "    fix 1  " + "; ".join(f"what is said of it is {figure}" for figure in figures)

    told = wrapped(line, width)

    assert all(figure in told for figure in figures), told
    assert all(re.match(r" {11}\S", more) for more in told.split("\n")[1:])


def test_escapes_have_no_width() -> None:
    red = "\x1b[1;31mfour words in red\x1b[0m"
    link = "\x1b]8;;file:///a/very/long/path/that/has/no/columns\x1b\\here\x1b]8;;\x1b\\"

    assert wrapped(f"{red} and {link}", 40) == f"{red} and {link}"
    assert visible(f"{red} and {link}") == "four words in red and here"


def test_what_a_file_says_is_not_broken() -> None:
    line = "  12 | " + "key: value " * 30

    assert wrapped(line, 60) == line


def test_nothing_is_broken_in_a_pipe() -> None:
    assert fitted("word " * 100, Style()) == "word " * 100


@given(st.text("ab ", min_size=1, max_size=300), st.integers(0, 299), st.integers(1, 30), st.integers(30, 160))
def test_a_long_line_is_shown_around_its_place(line: str, start: int, size: int, room: int) -> None:
    start = min(start, len(line) - 1)
    end = min(start + min(size, room - 10), len(line))

    shown, place = window(line, start, end, room)

    assert len(shown) <= room
    assert shown[place : place + end - start] == line[start:end]
