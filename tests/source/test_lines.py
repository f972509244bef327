"""Offsets to lines and columns, for every kind of line end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source.lines import Lines, span_at

TEXTS = st.text("ab\r\n\x85\u2028é", max_size=20)


@given(TEXTS)
def test_lines_are_what_stands_between_line_ends(text: str) -> None:
    lines = Lines(text)
    expected = re.split(r"\r\n|\r|\n", text)

    assert len(lines.starts()) == len(expected)
    assert [lines.line(number + 1) for number in range(len(expected))] == expected


@given(TEXTS, st.data())
def test_a_position_leads_back_to_its_offset(text: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    lines = Lines(text)
    line, column = lines.position(offset)

    assert lines.starts()[line - 1] + column - 1 == offset
    assert line == len(lines.starts()) or offset < lines.starts()[line]


@given(TEXTS, st.data())
def test_a_span_has_the_positions_of_its_ends(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    lines = Lines(text)

    assert lines.span(start, end) == (start, end, *lines.position(start), *lines.position(end))


@pytest.mark.parametrize("number", [-1, 0, 3])
def test_a_line_that_is_not_there_is_empty(number: int) -> None:
    assert Lines("a\nb").line(number) == ""


@pytest.mark.parametrize(
    ("start", "end", "span"), [(1, None, (1, 2)), (9, None, (3, 3)), (-4, 99, (0, 3)), (2, 1, (2, 2))]
)
def test_a_span_is_clamped_to_the_text(start: int, end: int | None, span: tuple[int, int]) -> None:
    assert span_at("abc", start, end)[:2] == span
