"""Regular expressions of bounded cost, for `matches(x, r"...")`.

Python's engine backtracks, so that some patterns take exponential time. A pattern is accepted only if it can split a
text of MAX_TEXT characters in few ways: no quantifier inside another, at most two variable ones side by side, few
alternatives, no lookaround, no backreference.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from memlint.expressions.facts import MAX_TEXT

if sys.version_info >= (3, 11):
    from re import _parser as sre  # type: ignore[attr-defined]
else:
    import sre_parse as sre

MAX_PATTERN = 200
_MAX_VARIABLE = 2
_MAX_WAYS = 256
_REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
_REFUSED = {"ASSERT": "a lookaround", "ASSERT_NOT": "a lookaround", "GROUPREF": "a backreference"}
_REFUSED["GROUPREF_EXISTS"] = "a conditional group"


class UnsafePattern(ValueError):
    """Why a pattern is refused, in words that follow "the pattern"."""


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The compiled pattern. Raises `UnsafePattern`."""
    if len(pattern) > MAX_PATTERN:
        raise UnsafePattern(f"has {len(pattern)} characters, at most {MAX_PATTERN} are allowed")
    try:
        tree = sre.parse(pattern)
        cost = _Cost()
        _walk(tree, cost, inside=False)
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnsafePattern(f"is not a regular expression: {error}") from None


class _Cost:
    def __init__(self) -> None:
        self.variable = 0
        self.ways = 1


def _walk(items: Any, cost: _Cost, inside: bool) -> None:
    for operator, argument in items:
        name = str(operator)
        if name in _REFUSED:
            raise UnsafePattern(f"uses {_REFUSED[name]}")
        if name in _REPEATS:
            _repeat(argument, cost, inside)
        elif name == "BRANCH":
            _branch(argument[1], cost, inside)
        else:
            _walk_groups(argument, cost, inside)


def _walk_groups(argument: Any, cost: _Cost, inside: bool) -> None:
    parts = argument if isinstance(argument, tuple) else (argument,)
    for part in parts:
        if isinstance(part, sre.SubPattern):
            _walk(part, cost, inside)


def _repeat(argument: Any, cost: _Cost, inside: bool) -> None:
    low, high, body = argument
    if inside:
        raise UnsafePattern("has a quantifier inside another")
    if (low, high) == (0, 1):
        cost.ways *= 2
    elif low != high:
        cost.variable += 1
    if cost.variable > _MAX_VARIABLE or cost.ways > _MAX_WAYS:
        raise UnsafePattern(f"has more than {_MAX_VARIABLE} open quantifiers or too many optional parts")
    if int(low) > MAX_TEXT:
        raise UnsafePattern(f"repeats more than {MAX_TEXT} times")
    _walk(body, cost, inside=(low, high) != (0, 1))


def _branch(branches: Any, cost: _Cost, inside: bool) -> None:
    if inside:
        raise UnsafePattern("has alternatives inside a quantifier")
    cost.ways *= len(branches)
    if cost.ways > _MAX_WAYS:
        raise UnsafePattern("has too many alternatives")
    for branch in branches:
        _walk(branch, cost, inside)
