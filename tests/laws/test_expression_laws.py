"""Laws of the rule language: no text escapes it, no value makes it raise, its logic is Kleene's."""

from __future__ import annotations

import ast
import contextlib
import json
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.checks.expression import ExpressionError, compile_expression
from memlint.checks.expression_build import build
from memlint.checks.expression_functions import FUNCTIONS
from memlint.checks.expression_render import render
from memlint.checks.expression_syntax import MAX_LENGTH
from memlint.checks.expression_template import compile_template
from memlint.checks.facts import Facts, StepLimit
from memlint.checks.vocabulary import Vocabulary
from memlint.run import UNKNOWN, Run

NAMES = Vocabulary()
PLAIN = (int, float, str, bool, type(None), list, tuple, dict, type(UNKNOWN))
WORDS = [
    *FUNCTIONS,
    *("has", "known", "given", "enabled", "default", "origin", "version", "matches", "any", "all", "for", "x", "in"),
    *("and", "or", "not", "if", "else", "is", "null", "true", "None", "lambda", "GiB", "__class__", "__import__"),
    *("batch.micro_batch_size", "method.kind", "config.a", "config.b", "config", "deepspeed.zero_optimization.stage"),
    *("estimate.peak.logits", "model.hidden_size", "method.targets", "stack.transformers", "hardware.capability"),
    *("0", "1", "2.5", "10**9", "'a'", '"full"', "'4.57'", "r'a+'", "(", ")", "[", "]", "{", "}", ",", ".", ":", "#"),
    *("+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "not in", "is not", ":=", "@", "é", "\n"),
]
scalars = (
    st.none() | st.booleans() | st.integers(-(10**60), 10**60) | st.floats() | st.text(max_size=8) | st.just("auto")
)
values = st.recursive(scalars, lambda v: st.lists(v, max_size=4) | st.dictionaries(st.text(max_size=3), v, max_size=3))
texts = st.text(max_size=80) | st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join)


def evaluated(text: str, config: dict[str, Any]) -> Any:
    """What an expression gives; None where it is refused or runs out of steps."""
    try:
        program = compile_expression(text, NAMES)
        return program.evaluate(Facts(Run("llamafactory", "x.yaml"), None, {"config": config}))
    except (ExpressionError, StepLimit):
        return None


@settings(max_examples=400, deadline=None)
@given(texts, st.dictionaries(st.sampled_from(["a", "b"]), values))
def test_any_text_is_refused_or_gives_a_plain_value(text: str, config: dict[str, Any]) -> None:
    begun = time.perf_counter()
    result = evaluated(text, config)

    assert isinstance(result, PLAIN)
    assert time.perf_counter() - begun < 1


@settings(max_examples=200, deadline=None)
@given(texts)
def test_an_error_lies_inside_the_text(text: str) -> None:
    try:
        compile_expression(text, NAMES)
    except ExpressionError as error:
        assert 0 <= error.start <= error.end <= max(len(text), 1) + 1 or len(text) > MAX_LENGTH


@settings(max_examples=200, deadline=None)
@given(texts, values)
def test_a_stored_form_means_the_same(text: str, value: Any) -> None:
    facts = Facts(Run("llamafactory", "x.yaml"), None, {"config": {"a": value}})
    try:
        program = compile_expression(text, NAMES)
        before = program.evaluate(facts)
    except (ExpressionError, StepLimit):
        return
    facts.begin({})
    after = build(json.loads(json.dumps(program.form)))(facts)

    assert repr(before) == repr(after)


@settings(max_examples=200, deadline=None)
@given(texts)
def test_any_template_is_refused_or_rendered(text: str) -> None:
    facts = Facts(Run("llamafactory", "x.yaml"))
    with contextlib.suppress(ExpressionError, StepLimit):
        assert isinstance(render(compile_template(text, NAMES), facts), str)


TRUTH = {"true": True, "false": False, "config.absent": None}
terms = st.recursive(
    st.sampled_from([*TRUTH]),
    lambda t: (
        st.tuples(t, st.sampled_from(["and", "or"]), t).map(lambda p: f"({p[0]} {p[1]} {p[2]})")
        | t.map("not {}".format)
    ),
    max_leaves=8,
)


def kleene(node: ast.expr) -> bool | None:
    """The truth of a term by the tables of Kleene's logic; None is unknown."""
    if isinstance(node, ast.UnaryOp):
        inner = kleene(node.operand)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [kleene(part) for part in node.values]
        decisive = isinstance(node.op, ast.Or)
        return decisive if decisive in parts else None if None in parts else not decisive
    return TRUTH[ast.unparse(node)]


@settings(max_examples=200, deadline=None)
@given(terms)
def test_logic_is_kleenes(text: str) -> None:
    expected = kleene(ast.parse(text, mode="eval").body)

    assert evaluated(text, {}) is (UNKNOWN if expected is None else expected)


numbers = st.integers(-(10**30), 10**30) | st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=200, deadline=None)
@given(numbers, numbers)
def test_comparisons_are_exact(left: float, right: float) -> None:
    config = {"a": left, "b": right}

    assert evaluated("config.a == config.b", config) is (left == right)
    assert evaluated("config.a < config.b", config) is (left < right)
    assert evaluated("config.a <= config.b", config) is not evaluated("config.a > config.b", config)


@settings(max_examples=200, deadline=None)
@given(st.integers(-(10**30), 10**30), st.integers(-(10**30), 10**30))
def test_whole_numbers_are_exact(left: int, right: int) -> None:
    config = {"a": left, "b": right}

    assert evaluated("config.a * config.b", config) == left * right
    assert evaluated("config.a - config.b", config) == left - right
    if right:
        assert evaluated("config.a * config.b / config.b", config) == left
        assert evaluated("config.a // config.b * config.b + config.a % config.b", config) == left
