"""Text to a tree: the limits, what is no expression, and where in the text a mistake stands."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.expressions.parse import MAX_LENGTH, MAX_NODES, ExpressionError, parse, span


def mistake(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize("text", ["a and\nb", "  a and b", "a\r\n\tand b "])
def test_line_breaks_and_space_around_change_nothing(text: str) -> None:
    assert ast.dump(parse(text)) == ast.dump(parse("a and b"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the expression is empty"),
        (" \n", "the expression is empty"),
        ("a +", "not an expression"),
        ("a = 1", "not an expression"),
        ("a\0", "not an expression"),
        ("a # why", "a comment cannot stand inside an expression"),
        ("a" * (MAX_LENGTH + 1), f"has {MAX_LENGTH + 1} characters"),
        ("+".join("a" * (MAX_NODES // 2 + 1)), f"at most {MAX_NODES} are allowed"),
        ("(" * 400 + ")" * 400, "not an expression"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    assert message in mistake(text).message


def test_a_comment_is_marked_from_its_sign_on() -> None:
    error = mistake("ä  # why")
    assert (error.start, error.end) == (3, 8)


def test_a_sign_inside_a_string_is_no_comment() -> None:
    assert isinstance(parse("'#'"), ast.Constant)


@pytest.mark.parametrize(("text", "part"), [("  ä == b", "b"), ("'😀' + name", "name"), ("a and\nbc", "bc")])
def test_a_part_is_found_in_the_text_by_characters(text: str, part: str) -> None:
    nodes = [node for node in ast.walk(parse(text)) if isinstance(node, ast.Name)]
    start, end = span(text, nodes[-1])
    assert text[start:end] == part


@given(st.text(max_size=60))
def test_any_text_is_a_tree_or_a_mistake_inside_it(text: str) -> None:
    try:
        tree = parse(text)
    except ExpressionError as error:
        assert 0 <= error.start <= error.end
    else:
        start, end = span(text, tree)
        assert 0 <= start < end <= len(text)
