"""The language of rules: `when:`, `variables:` and the `{...}` in messages.

It has Python's syntax, which is parsed with `ast` and never executed. Names and types are checked when the rule
loads, and the result is a closure that cannot raise on any config. Logic has three values: an operation on an
UNKNOWN or absent value is UNKNOWN, and a rule fires only on True.
The page for rule writers is docs/rules-format.md.
"""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.expressions.build import Form, build
from memlint.expressions.check import Names, check
from memlint.expressions.facts import Evaluate
from memlint.expressions.kinds import Type
from memlint.expressions.parse import ExpressionError, parse

__all__ = ["ExpressionError", "Program", "compile_expression"]


class Program(NamedTuple):
    """A compiled expression. `form`: nested lists, which JSON can hold and `expressions.build` makes `evaluate` of."""

    form: Form
    type: Type
    evaluate: Evaluate


def compile_expression(text: str, names: Names) -> Program:
    """Checks `text` against `names` and compiles it. Raises `ExpressionError` with character offsets."""
    checked = check(text, parse(text), names)
    return Program(checked.form, checked.type, build(checked.form))
