"""The language of rules: `when:`, `variables:` and the `{...}` in messages.

Python's syntax, read with `ast` and never run: names are data paths fixed when the rule loads, kinds
are checked against the vocabulary, and the result is a closure that cannot raise on any config.
Logic has three values: what is UNKNOWN or absent stays so, and a rule fires only on True.
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
    """A compiled expression. `form` is what `expression_build.build` makes `evaluate` of: JSON can hold it."""

    form: Form
    type: Type
    evaluate: Evaluate


def compile_expression(text: str, names: Names) -> Program:
    """`text` checked against `names` and compiled. Raises `ExpressionError` with character offsets."""
    checked = check(text, parse(text), names)
    return Program(checked.form, checked.type, build(checked.form))
