"""Offsets of memlint and positions of an editor name the same places."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from lsprotocol.types import Position

from memlint.findings import Location
from memlint.lsp.positions import UNITS, Positions

TEXTS = st.text(st.sampled_from("ab: é€😋\t\n\r\u2028\x0c"), max_size=40)
ENCODINGS = st.sampled_from(sorted(UNITS))
_CODECS = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}


@given(TEXTS, ENCODINGS, st.data())
def test_a_position_leads_back_to_its_offset(text: str, encoding: str, data: st.DataObject) -> None:
    offset = data.draw(st.integers(0, len(text)))
    inside = text[offset - 1 : offset + 1] == "\r\n"  # no position lies between the two
    positions = Positions(text, encoding)

    assert positions.offset(positions.at(offset)) == offset - inside


@given(TEXTS, ENCODINGS, st.data())
def test_a_position_counts_as_the_protocol_says(text: str, encoding: str, data: st.DataObject) -> None:
    """Lines end at LF, CRLF and CR alone; columns are code units of the encoding."""
    offset = data.draw(st.integers(0, len(text)).filter(lambda one: text[one - 1 : one + 1] != "\r\n"))
    lines = re.split(r"\r\n|\r|\n", text[:offset])

    found = Positions(text, encoding).at(offset)

    assert found == Position(len(lines) - 1, len(lines[-1].encode(_CODECS[encoding])) // UNITS[encoding])


@given(TEXTS, ENCODINGS, st.integers(0, 10), st.integers(0, 100))
def test_any_position_is_some_offset(text: str, encoding: str, line: int, column: int) -> None:
    assert 0 <= Positions(text, encoding).offset(Position(line, column)) <= len(text)


def test_a_column_behind_letters_of_two_units() -> None:
    positions = Positions("# 😋\nkey: 😋x  # é")

    assert positions.offset(Position(1, 7)) == len("# 😋\nkey: 😋")
    assert positions.of(Location("a.yaml", 2, 7, 2, 8)).start == Position(1, 7)


def test_half_a_letter_is_before_it() -> None:
    assert Positions("😋x").offset(Position(0, 1)) in (0, 1)
    assert Positions("éx", "utf-8").offset(Position(0, 1)) == 0


def test_a_finding_over_several_lines_is_shown_on_its_first() -> None:
    found = Positions("section:\n  a: 1\n  b: 2\n").of(Location("a.yaml", 1, 1, 3, 7))

    assert (found.start, found.end) == (Position(0, 0), Position(0, 8))
