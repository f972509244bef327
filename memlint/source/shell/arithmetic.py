"""Arithmetic expansion, `$(( ... ))`, on integers as in bash 5."""

from __future__ import annotations

import re
from collections.abc import Callable

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)|([A-Za-z_]\w*)|(\*\*|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>()!~?:&|^]))"
)
_LEVELS = ("||", "&&", "|", "^", "&", "== !=", "<= >= < >", "<< >>", "+ -", "* / %")
_LARGEST = 2**63
MOST_LETTERS = 1_000
MOST_DEPTH = 20


class CannotCompute(ValueError):
    """The expression is not supported here, or divides by zero."""


def compute(text: str, value_of: Callable[[str], int]) -> int:
    """The value of an expression. `value_of`: returns a variable's value. Raises CannotCompute."""
    if len(text) > MOST_LETTERS:
        raise CannotCompute("too long")
    return _Parser(_tokens(text), value_of).all()


def _tokens(text: str) -> list[str]:
    found, position = [], 0
    text = text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CannotCompute(text)
        found.append(match[0].strip())
        position = match.end()
    return found


class _Parser:
    """A precedence-climbing parser for the C operators of bash, without assignments."""

    def __init__(self, tokens: list[str], value_of: Callable[[str], int]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._value_of = value_of

    def all(self) -> int:
        value = self._choice()
        if self._at != len(self._tokens):
            raise CannotCompute("more than an expression")
        return value

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _choice(self) -> int:
        self._depth += 1
        if self._depth > MOST_DEPTH:
            raise CannotCompute("too deep")
        condition = self._binary(0)
        if self._peek() == "?":
            self._take()
            yes = self._choice()
            if self._take() != ":":
                raise CannotCompute("no `:`")
            no = self._choice()
            condition = yes if condition else no
        self._depth -= 1
        return condition

    def _binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._power()
        left = self._binary(level + 1)
        while self._peek() and self._peek() in _LEVELS[level].split():
            operator = self._take()
            left = _applied(operator, left, self._binary(level + 1))
        return left

    def _power(self) -> int:
        base = self._unary()
        if self._peek() != "**":
            return base
        self._take()
        exponent = self._power()
        if not 0 <= exponent <= 64 or abs(base) > 2**16:
            raise CannotCompute("too large")
        return _bounded(base**exponent)

    def _unary(self) -> int:
        token = self._take()
        if token in ("-", "+", "!", "~"):
            self._depth += 1
            if self._depth > MOST_DEPTH:
                raise CannotCompute("too deep")
            value = self._unary()
            return {"-": -value, "+": value, "!": int(not value), "~": ~value}[token]
        if token == "(":
            value = self._choice()
            if self._take() != ")":
                raise CannotCompute("no `)`")
            return value
        if not token or not (token[0].isalnum() or token[0] == "_"):
            raise CannotCompute(token)
        return _number(token) if token[0].isdigit() else self._value_of(token)


def _number(token: str) -> int:
    """The value of a number. A leading 0 means octal."""
    try:
        if token[:2].lower() == "0x":
            return _bounded(int(token, 16))
        return _bounded(int(token, 8 if token[0] == "0" and len(token) > 1 else 10))
    except ValueError:
        raise CannotCompute(token) from None


def _bounded(value: int) -> int:
    if abs(value) >= _LARGEST:
        raise CannotCompute("too large")
    return value


def _applied(operator: str, left: int, right: int) -> int:
    if operator in ("/", "%"):
        if not right:
            raise CannotCompute("a division by zero")
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # as in C, towards zero
        return quotient if operator == "/" else left - quotient * right
    if operator in ("<<", ">>") and not 0 <= right < 64:
        raise CannotCompute("a shift too far")
    return _bounded(_OPERATIONS[operator](left, right))


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&&": lambda a, b: int(bool(a and b)),
    "||": lambda a, b: int(bool(a or b)),
}
