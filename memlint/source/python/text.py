"""A Python source text: its syntax tree, and the places of nodes in characters of the decoded text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

from memlint.source.document import Problem, Span
from memlint.source.lines import Lines, span_at

MAX_CHARACTERS = 1_000_000
# The syntax trees of 2 M characters take about 78 MiB (CPython 3.11). Programs that import more than is kept parse it
# all again each time, so this is what large research repositories hold.
MAX_KEPT = 2_500_000
# Python's own parser refuses deeper nesting with MemoryError or RecursionError; both are caught.
_TOO_LARGE = f"more than {MAX_CHARACTERS:,} characters: not read"


class SourceText:
    """A parsed file. `blocks`: its statements in groups (cells of a notebook), which run even if an earlier one
    fails."""

    __slots__ = ("_lines", "_starts", "blocks", "path", "text", "tree")

    def __init__(self, path: str, text: str, tree: ast.Module, blocks: Sequence[Sequence[ast.stmt]] = ()) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self.blocks = blocks or (tree.body,)
        self._lines = Lines(text)
        self._starts = self._lines.starts()

    def span(self, node: ast.AST) -> Span | None:
        """The characters of `node`; None for a node without a place."""
        line, end_line = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if line is None or end_line is None:
            return None
        start = self._offset(line, node.col_offset)  # type: ignore[attr-defined]
        return self.place(start, self._offset(end_line, node.end_col_offset))  # type: ignore[attr-defined]

    def place(self, start: int, end: int) -> Span:
        """The place in the file of the text's characters `start` to `end`."""
        return self._lines.span(start, end)

    def _offset(self, line: int, column: int) -> int:
        """The offset in characters of `column` UTF-8 bytes into a line (ast counts bytes)."""
        start = self._starts[min(line, len(self._starts)) - 1]
        whole = self.text[start : start + column]
        if whole.isascii():
            return start + column
        return start + len(whole.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))


class ParsedModules:
    """A cache of parsed modules, which several scripts may import: the latest ones, up to `MAX_KEPT` characters."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], SourceText | Problem] = {}
        self._characters = 0

    def parse(self, path: str, text: str) -> SourceText | Problem:
        """Like the function `parse`, cached."""
        found = self._kept.pop((path, text), None)
        if found is None:
            found = parse(path, text)
            self._characters += len(text)
        self._kept[path, text] = found
        while self._characters > MAX_KEPT and len(self._kept) > 1:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._characters -= len(oldest[1])
        return found


def parse(path: str, text: str) -> SourceText | Problem:
    """The parsed `text`, or the problem that prevents parsing. Nothing of the text is executed."""
    if len(text) > MAX_CHARACTERS:
        return Problem("too-large", _TOO_LARGE, span_at(text, 0), fatal=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python warns about invalid escapes in strings
            tree = ast.parse(text)
    except SyntaxError as error:
        return Problem("syntax", f"not Python: {error.msg}", _place(text, error), fatal=True)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; deep nesting
        return Problem("syntax", f"not Python: {error or type(error).__name__}", span_at(text, 0), fatal=True)
    return SourceText(path, text, tree)


def _place(text: str, error: SyntaxError) -> Span:
    starts = Lines(text).starts()
    line = max(1, min(error.lineno or 1, len(starts)))
    return span_at(text, starts[line - 1] + max(0, (error.offset or 1) - 1))
