"""Where a character of a rule's text stands in its file, however YAML wrote the text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.expressions.yaml_place import locate, locate_key
from memlint.source import load

# Letters only once: the character found is then known to be the right one.
letters = st.permutations("abcdefghijklmnop").map("".join)


@st.composite
def sentences(draw: st.DrawFn) -> list[str]:
    """Words, none of a letter that another has."""
    text, words = draw(letters), []
    while text:
        length = draw(st.integers(1, 6))
        words.append(text[:length])
        text = text[length:]
    return words


@st.composite
def written(draw: st.DrawFn) -> str:
    """A mapping whose `x` holds the words in one of YAML's styles, something before and after it."""
    words, indent = draw(sentences()), " " * draw(st.integers(1, 4))
    lines = f"\n{indent}".join(words)
    space = draw(st.sampled_from([" ", f"\n{indent}"]))
    style = draw(
        st.sampled_from(
            [
                f" {space.join(words)}",
                f" '{space.join(words)}'",
                f' "{space.join(words)}"',
                f"\n{indent}{' '.join(words)}",
                *(f" {head}\n{indent}{lines}" for head in ("|", ">", "|-", ">-", ">+", "|  # why")),
                *(f" {head}\n\n{indent}{lines}" for head in ("|", ">-")),
            ]
        )
    )
    before = draw(st.sampled_from(["", "1: 2\n", "# A\n\n2: '3'\n", "---\n"]))
    return f"{before}x:{style}\n4: 5\n"


@settings(max_examples=150, deadline=None)
@given(written(), st.data())
def test_a_character_is_found_again(text: str, data: st.DataObject) -> None:
    (document,) = load(text.encode(), "rule.yaml", dialect="yaml12")
    value = document.value["x"]
    offset = data.draw(st.integers(0, len(value) - 1).filter(lambda at: not value[at].isspace()))

    line, column = locate(document, ("x",), offset)

    assert text.splitlines()[line - 1][column - 1] == value[offset]


@pytest.mark.parametrize(
    ("text", "path", "offset", "place"),
    [
        ("x: abc\n", ("x",), 3, (1, 7)),  # the end of the text
        ("x: 'abc'\n", ("x",), 3, (1, 8)),
        ("x: abc\n", ("gone",), 0, (1, 1)),
        ("# a\nx: abc\n", ("x", "gone", 3), 0, (2, 4)),  # the nearest that is there
        ("x:\n  - abc\n  - def\n", ("x", 1), 1, (3, 6)),
        ("x:\n  - abc\n", ("x", 7), 1, (2, 3)),
        ("x: 12\n", ("x",), 1, (1, 4)),  # a number has no characters
        ("", ("x",), 0, (1, 1)),
    ],
)
def test_what_is_no_character_has_a_place_too(
    text: str, path: tuple[str | int, ...], offset: int, place: tuple[int, int]
) -> None:
    (document,) = load(text.encode(), "rule.yaml", dialect="yaml12")

    assert locate(document, path, offset) == place


def test_a_key_has_its_own_place_and_an_item_that_of_its_value() -> None:
    (document,) = load(json.dumps({"x": [1]}).encode(), "rule.json")

    assert locate_key(document, ("x",)) == (1, 2)
    assert locate_key(document, ("x", 0)) == (1, 8)
    assert locate_key(document, ("gone",)) == (1, 1)
