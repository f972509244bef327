"""Parses text of the rule language to a Python syntax tree, within limits. Errors have the place of the mistake.

The language borrows Python's syntax through `ast.parse`, which builds a tree and runs nothing.
"""

from __future__ import annotations

import ast
import warnings

MAX_LENGTH = 1_000
MAX_NODES = 200
# Literals beyond this have no use in a memory rule; the cap keeps arithmetic on them cheap.
MAX_INTEGER = 2**128


class ExpressionError(Exception):
    """What is wrong with an expression. `start` and `end` are character offsets into its text."""

    def __init__(self, message: str, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = max(start, end)


def parse(text: str) -> ast.expr:
    """The tree of one expression; line breaks count as spaces. Raises `ExpressionError`."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"the expression has {len(text)} characters, at most {MAX_LENGTH} are allowed")
    line = _one_line(text)
    if not line.strip():
        raise ExpressionError("the expression is empty")
    tree = _parse(line)
    _refuse_comment(line, tree)
    count = sum(1 for node in ast.walk(tree) if isinstance(node, ast.expr))
    if count > MAX_NODES:
        raise ExpressionError(f"the expression has {count} parts, at most {MAX_NODES} are allowed")
    return tree


def _one_line(text: str) -> str:
    """`text` with line breaks and leading space replaced, so that each character keeps its offset."""
    return "".join(" " if character in "\r\n\t\f" else character for character in text)


def _parse(line: str) -> ast.expr:
    indent = len(line) - len(line.lstrip(" "))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # "\d" in a plain string, `x is 1`: mistakes, not warnings
            tree = ast.parse(line[indent:], mode="eval").body
    except SyntaxError as error:
        start = indent + max(0, (error.offset or 1) - 1)
        raise ExpressionError(_syntax_message(error), start, start + 1) from None
    except (ValueError, MemoryError, RecursionError, Warning) as error:
        raise ExpressionError(f"not an expression: {str(error) or type(error).__name__}") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset += indent
            node.end_col_offset = (node.end_col_offset or 0) + indent
    return tree


def _syntax_message(error: SyntaxError) -> str:
    hint = ' (write a pattern as r"...")' if "escape" in error.msg else ""
    return f"not an expression: {error.msg}{hint}"


def _refuse_comment(line: str, tree: ast.expr) -> None:
    encoded = line.encode("utf-8", "surrogatepass")
    rest = encoded[tree.end_col_offset or 0 :].decode("utf-8", "replace")
    if "#" in rest:
        start = len(line) - len(rest) + rest.index("#")
        raise ExpressionError("a comment cannot stand inside an expression", start, len(line))


def span(text: str, node: ast.expr) -> tuple[int, int]:
    """Character offsets of `node`; `ast` counts UTF-8 bytes."""
    encoded = text.encode("utf-8", "surrogatepass")
    start = len(encoded[: node.col_offset].decode("utf-8", "replace"))
    end = len(encoded[: node.end_col_offset].decode("utf-8", "replace"))
    return start, end
