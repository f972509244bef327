"""Messages: braces, rendering of values, places of mistakes."""

from __future__ import annotations

import pytest

from memlint.expressions.language import ExpressionError
from memlint.expressions.render import render, words
from memlint.expressions.template import compile_template
from memlint.run import UNKNOWN
from tests.ruleset.names import NAMES, facts


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain", "plain"),
        ("{batch.micro_batch_size} x", "4 x"),
        ("{{{batch.micro_batch_size}}}", "{4}"),
        ("{'}'}", "}"),
        ("{gib(estimate.device_bytes)} of {gib(estimate.budget_bytes)}", "12.0 GiB of 0.0 GiB"),
        ("{sequence.length}", "unknown"),
        ("", ""),
    ],
)
def test_a_template_is_filled_in(template: str, expected: str) -> None:
    assert render(compile_template(template, NAMES), facts()) == expected


@pytest.mark.parametrize(("template", "start"), [("ab {", 3), ("ab }", 3), ("ab {1 +}", 4), ("a{b}", 2), ("{}", 1)])
def test_mistakes_have_a_place(template: str, start: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_template(template, NAMES)

    assert caught.value.start == start


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (UNKNOWN, "unknown"),
        (True, "true"),
        (None, "null"),
        (0.1 + 0.2, "0.3"),
        ((4, 57), "4.57"),
        (["a", 1], "a, 1"),
        ({"a": 1}, "a mapping of 1 keys"),
        (10**2000, "a very large number"),
        ("x" * 600, "x" * 600),
        ("x" * 601, "x" * 597 + "..."),
    ],
)
def test_a_value_in_words(value: object, expected: str) -> None:
    assert words(value) == expected
