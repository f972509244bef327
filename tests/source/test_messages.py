"""Syntax errors in words that say what to do, at the place where it is to be done."""

from __future__ import annotations

import pytest

from memlint.source import load


@pytest.mark.parametrize(
    ("text", "advice", "line", "column"),
    [
        ("a: b: c\n", "a ':' that makes no sense here", 1, 5),
        ("a: 1\nb 2\nc: 3\n", "a key without ':'", 2, 1),
        ("a: 1\nb:2\nc: 3\n", "a ':' needs a space behind it", 2, 1),
        ("a: 'open\n", "a quote that is opened here is never closed", None, None),
        ("a: [1, 2\n", "a '[' that is never closed", None, None),
        ("a: {b: 1\n", "a '{' that is never closed", None, None),
        ("a:\n\t- b\n", "a tab; YAML is indented with spaces", 2, 1),
        ("a: @b\n", "a value cannot start with '@'; quote it", 1, 4),
        ('a: "\\d"\n', "an unknown escape in double quotes", 1, 5),
        ("%YAML 3.0\n---\na: 1\n", "an unknown YAML version", None, None),
        ("a: !x!y z\n", "an undefined tag", 1, 4),
        ("- a\nb: 1\n", "this does not line up", 2, 1),
        ("a: 1\n<<<<<<< HEAD\nb: 2\n=======\nb: 3\n>>>>>>> topic\n", "a merge conflict; keep one side", 2, 1),
    ],
)
def test_a_syntax_error(text: str, advice: str, line: int | None, column: int | None) -> None:
    (problem,) = load(text.encode(), "a.yaml")[0].problems

    assert problem.code == "syntax" and problem.fatal
    assert problem.message.startswith(advice)
    if line is not None:
        assert (problem.span.line, problem.span.column) == (line, column)


def test_the_text_of_a_value_may_look_like_a_conflict() -> None:
    assert load(b"a: |\n  <<<<<<< HEAD\nb: 1\n", "a.yaml")[0].problems == ()
    (problem,) = load(b'{"a": 1,\n<<<<<<< HEAD\n"b": 2\n}', "a.json")[0].problems
    assert problem.message.startswith("a merge conflict")


def test_a_template_is_called_one() -> None:
    (problem,) = load(b"a: 1\n{% if b %}\nc: 2\n", "a.yaml")[0].problems
    assert (problem.code, problem.span.line) == ("template", 2)


def test_what_an_error_is_a_part_of_is_marked_too() -> None:
    (problem,) = load(b"a: 1\nb: [1,\nc: 2\n", "a.yaml")[0].problems
    assert problem.related is not None and problem.related.line <= problem.span.line
