"""Patterns of the rule language: which are taken, which are refused and why, and that none runs away."""

from __future__ import annotations

import re

import pytest

from memlint.expressions.bounded_regex import MAX_PATTERN, UnsafePattern, compile_pattern
from memlint.expressions.facts import MAX_TEXT

TAKEN = [
    ("^Llama-3", "Llama-3-8B", True),
    (r"(?i)qwen2(\.5)?", "Qwen2.5-7B", True),
    ("(sft|dpo|kto)$", "dpo", True),
    (r"\d+x\d+", "8x22b", True),
    ("a*b*", "", True),
    ("[a-z]{3}", "ab", False),
    ("a?b?c?d?", "", True),
]
REFUSED = [
    ("(a+)+", "a quantifier inside another"),
    ("(a{2,3}b)*", "a quantifier inside another"),
    ("(?:(?:a?)*)", "a quantifier inside another"),
    ("a*b*c*", "more than 2 open quantifiers"),
    ("a?" * 9, "too many optional parts"),
    ("(ab|cd)+", "alternatives inside a quantifier"),
    ("(ab|cd)" * 9, "too many alternatives"),
    ("(?=a)", "a lookaround"),
    ("(?<!a)b", "a lookaround"),
    (r"(a)\1", "a backreference"),
    ("(a)?(?(1)b|c)", "a conditional group"),
    (f"a{{{MAX_TEXT + 1}}}", "repeats more than"),
    ("(", "is not a regular expression"),
    ("a" * (MAX_PATTERN + 1), f"has {MAX_PATTERN + 1} characters"),
]


@pytest.mark.parametrize(("pattern", "text", "matches"), TAKEN)
def test_a_bounded_pattern_does_what_re_does(pattern: str, text: str, matches: bool) -> None:
    assert bool(compile_pattern(pattern).search(text)) is matches


@pytest.mark.parametrize(("pattern", "why"), REFUSED)
def test_a_pattern_of_unbounded_cost_is_refused_with_its_reason(pattern: str, why: str) -> None:
    with pytest.raises(UnsafePattern, match=re.escape(why)):
        compile_pattern(pattern)


def test_deep_nesting_is_taken_or_refused_and_nothing_else() -> None:
    try:
        taken = compile_pattern("(" * 99 + ")" * 99)
    except UnsafePattern as error:
        assert str(error)
    else:
        assert taken.search("")
