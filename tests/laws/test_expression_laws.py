"""Laws of the rule language: no text escapes it, no value makes it raise, its logic is Kleene's."""

from __future__ import annotations

import ast
import contextlib
import json
import operator
import re
import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.expressions.build import build
from memlint.expressions.facts import Facts, StepLimit
from memlint.expressions.functions import FUNCTIONS
from memlint.expressions.language import ExpressionError, compile_expression
from memlint.expressions.parse import MAX_LENGTH
from memlint.expressions.render import render, words
from memlint.expressions.template import compile_template
from memlint.expressions.vocabulary import Vocabulary
from memlint.run import UNKNOWN, Batch, Method, Run, Stack

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


ORDERS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
near = st.integers(-2, 2) | st.sampled_from([-0.5, 0.0, 1.0, 1.5]) | numbers


@settings(max_examples=150, deadline=None)
@given(near, near, near, st.sampled_from([*ORDERS]), st.sampled_from([*ORDERS]))
def test_comparisons_are_those_of_numbers_chained_too(a: float, b: float, c: float, one: str, two: str) -> None:
    wanted = ORDERS[one](a, b) and ORDERS[two](b, c)

    assert evaluated(f"config.a {one} config.b {two} config.c", {"a": a, "b": b, "c": c}) is wanted


versions = st.lists(st.integers(0, 3), min_size=1, max_size=4).map(tuple)


@settings(max_examples=150, deadline=None)
@given(versions, versions, st.sampled_from([*ORDERS]), st.booleans())
def test_versions_compare_part_by_part(have: tuple[int, ...], named: tuple[int, ...], sign: str, turned: bool) -> None:
    """Parts that are left out are zeros: 5 is 5.0."""
    literal = repr(".".join(map(str, named)))
    sides = [literal, 'version("torch")'] if turned else ['version("torch")', literal]
    have_all, named_all = (one + (0,) * (4 - len(one)) for one in (have, named))
    wanted = ORDERS[sign](named_all, have_all) if turned else ORDERS[sign](have_all, named_all)
    facts = Facts(Run("llamafactory", "x.yaml", stack=Stack(torch=have)))

    assert compile_expression(f" {sign} ".join(sides), NAMES).evaluate(facts) is wanted


ints = st.deferred(
    lambda: (
        st.sampled_from(["0", "7", "GiB", "batch.micro_batch_size", "batch.gradient_accumulation_steps", "config.a"])
        | st.tuples(ints | floats, st.sampled_from(["+", "-", "*", "/", "//", "%"]), ints | floats).map(
            "({0[0]} {0[1]} {0[2]})".format
        )
        | st.tuples(st.sampled_from(["-", "abs", "int", "round", "len", "min", "number"]), ints | lists).map(
            "{0[0]}({0[1]})".format
        )
        | conditional(ints, strings)
    )
)
floats = st.sampled_from(["0.5", "-1.5", "config.b", "model.stored_bits"])
bools = st.deferred(
    lambda: (
        st.sampled_from(["true", "false", "config.a", "has(config.a)", "known(config.b)", "precision.autocast"])
        | st.tuples(
            ints, st.sampled_from([*ORDERS, "in", "not in", "is"]), ints | lists | strings | st.just("null")
        ).map("({0[0]} {0[1]} {0[2]})".format)
        | st.tuples(bools, st.sampled_from(["and", "or"]), bools).map("({0[0]} {0[1]} {0[2]})".format)
        | st.tuples(st.sampled_from(["any", "all"]), lists).map("{0[0]}({0[1]})".format)
        | st.tuples(st.sampled_from(["any", "all"]), lists).map("{0[0]}(x == 7 for x in {0[1]})".format)
        | bools.map("not {}".format)
    )
)
strings = st.deferred(
    lambda: (
        st.sampled_from(["'full'", "'zzz'", "method.kind", "format", "config.b", "stack.framework"])
        | ints.map("gib({})".format)
        | strings.map("default(method.kind, {})".format)
        | strings.map("default(config.b, {})".format)
        | strings.map("lower({})".format)
        | conditional(strings, ints | st.just("null"))
    )
)
lists = st.deferred(
    lambda: (
        st.lists(ints | strings | bools, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.sampled_from(["method.targets", "config.a", "split('a,b', ',')"])
        | conditional(lists, lists | ints)
    )
)


def conditional(then: st.SearchStrategy[str], otherwise: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(then, bools, then | otherwise).map("({0[0]} if {0[1]} else {0[2]})".format)


KINDS = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null", list: "list", dict: "map"}


def fits(value: Any, kinds: frozenset[str]) -> bool:
    """Whether a value is of a kind: a whole number fits wherever a fraction does."""
    if isinstance(value, tuple):
        return bool(kinds & {"list", "version"})
    return KINDS[type(value)] in kinds or (type(value) is int and "float" in kinds)


@settings(max_examples=300, deadline=None)
@given(ints | bools | strings | lists, values, values)
def test_what_comes_out_is_of_the_type_that_was_checked(text: str, a: Any, b: Any) -> None:
    try:
        program = compile_expression(text, NAMES)
    except ExpressionError:
        return
    run = Run("llamafactory", "x.yaml", batch=Batch(micro_batch_size=4), method=Method(targets=("q", "v")))
    value = program.evaluate(Facts(run, None, {"config": {"a": a, "b": b}}))
    if value is UNKNOWN:
        return
    kinds, choices, items = program.type

    assert fits(value, kinds)
    assert not (choices and isinstance(value, str)) or value in choices
    assert items is None or not isinstance(value, list) or all(i is UNKNOWN or fits(i, items) for i in value)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join), st.text(" \n\t", max_size=3))
def test_the_place_of_an_error_moves_with_the_text(text: str, space: str) -> None:
    try:
        compile_expression(text, NAMES)
    except ExpressionError as error:
        with contextlib.suppress(SyntaxError):
            ast.parse(text.strip(), mode="eval")
            moved = refusal(space + text)
            shift = len(space) if text.strip() else 0
            assert (moved.start - shift, moved.end - shift, moved.message) == (error.start, error.end, error.message)


def refusal(text: str) -> ExpressionError:
    try:
        compile_expression(text, NAMES)
    except ExpressionError as error:
        return error
    raise AssertionError(f"{text!r} is accepted")


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=20))
def test_a_message_without_expressions_says_itself(text: str) -> None:
    template = compile_template(text.replace("{", "{{").replace("}", "}}"), NAMES)

    assert render(template, Facts(Run("llamafactory", "x.yaml"))) == text


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text("ab{} '", max_size=3) | st.just(None), max_size=5))
def test_a_message_is_its_texts_and_its_values(parts: list[str | None]) -> None:
    """None stands for an expression."""
    text = "".join(
        "{batch.micro_batch_size + 1}" if p is None else p.replace("{", "{{").replace("}", "}}") for p in parts
    )
    facts = Facts(Run("llamafactory", "x.yaml", batch=Batch(micro_batch_size=4)))

    assert render(compile_template(text, NAMES), facts) == "".join("5" if part is None else part for part in parts)


@settings(max_examples=100, deadline=None)
@given(
    st.text("ab{", max_size=6), st.sampled_from(["1 + true", "zzz", "", "'}' + 1", "not 1"]), st.text("ab", max_size=3)
)
def test_a_mistake_in_a_message_lies_where_its_expression_does(before: str, wrong: str, after: str) -> None:
    inner, escaped = refusal(wrong), before.replace("{", "{{")
    shift = len(escaped) + 1
    try:
        compile_template(f"{escaped}{{{wrong}}}{after}", NAMES)
    except ExpressionError as error:
        assert (error.start - shift, error.end - shift, error.message) == (inner.start, inner.end, inner.message)
    else:
        raise AssertionError("accepted")


@settings(max_examples=100, deadline=None)
@given(st.integers() | st.integers(-(2**600), 2**600))
def test_a_number_in_a_message_is_whole_or_said_to_be_large(number: int) -> None:
    assert words(number) in (str(number), "a very large number")
    assert abs(number) > 2**128 or words(number) == str(number)


patterns = st.lists(
    st.sampled_from(["a", "b", ".", "(ab)?", "[ab]", "a*", "b+?", "^", "$", "(?:a|ba)", "b{2}"]), max_size=5
)


@settings(max_examples=150, deadline=None)
@given(patterns.map("".join), st.text("abc", max_size=12))
def test_patterns_find_what_python_finds(pattern: str, text: str) -> None:
    with contextlib.suppress(ExpressionError):
        found = compile_expression(f'matches(config.a, r"{pattern}")', NAMES).evaluate(
            Facts(Run("llamafactory", "x.yaml"), None, {"config": {"a": text}})
        )
        assert found is (re.search(pattern, text) is not None)
