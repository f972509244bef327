"""Messages with expressions in braces: "the peak is {gib(estimate.device_bytes)} of {gib(budget)}"."""

from __future__ import annotations

from memlint.expressions.build import Form
from memlint.expressions.check import Names
from memlint.expressions.language import compile_expression
from memlint.expressions.parse import ExpressionError
from memlint.expressions.render import Template

MAX_TEMPLATE = 4_000


def compile_template(text: str, names: Names) -> Template:
    """The parts of a message: texts, and the forms of expressions. `{{` and `}}` stand for braces.

    Raises `ExpressionError` with offsets into `text`.
    """
    if len(text) > MAX_TEMPLATE:
        raise ExpressionError(f"the message has {len(text)} characters, at most {MAX_TEMPLATE} are allowed")
    parts: list[str | Form] = []
    here = 0
    while here < len(text):
        brace = _next_brace(text, here)
        if brace > here:
            parts.append(text[here:brace])
        if brace == len(text):
            break
        if text[brace : brace + 2] in ("{{", "}}"):
            parts.append(text[brace])
            here = brace + 2
        else:
            here = _expression(text, brace, names, parts)
    return tuple(parts)


def _next_brace(text: str, here: int) -> int:
    found = [place for place in (text.find("{", here), text.find("}", here)) if place >= 0]
    return min(found, default=len(text))


def _expression(text: str, brace: int, names: Names, parts: list[str | Form]) -> int:
    if text[brace] == "}":
        raise ExpressionError("a single } stands for nothing, write }}", brace, brace + 1)
    end = _closing(text, brace + 1)
    try:
        parts.append(compile_expression(text[brace + 1 : end], names).form)
    except ExpressionError as error:
        raise ExpressionError(error.message, brace + 1 + error.start, brace + 1 + error.end) from None
    return end + 1


def _closing(text: str, start: int) -> int:
    """The offset of the brace that ends the expression at `start`. Braces inside quotes do not count."""
    quote = ""
    for place in range(start, len(text)):
        character = text[place]
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character == "}":
            return place
    raise ExpressionError("{ without }", start - 1, start)
