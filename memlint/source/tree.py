"""The result of parsing one document, and the limits of parsing."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Path, Problem
from memlint.source.layout import Entry

MAX_DEPTH = 64
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
MAX_NODES = 500_000  # about 0.6 s and 110 MiB
TOO_MANY_NODES = f"more than {MAX_NODES:,} values, which memlint does not read: it reads configs, not data"
MAX_PROBLEMS = 200
TEMPLATE = "an unrendered template; render it first, or quote the value"


class Tree(NamedTuple):
    """The parsed document. `must_reload`: to change the dialect, the text must be parsed again, because keys or aliases
    may change with it."""

    value: Any
    root: Entry
    problems: tuple[Problem, ...] = ()
    aliases: tuple[Path, ...] = ()
    must_reload: bool = False


def failed(problems: tuple[Problem, ...]) -> Tree:
    return Tree(None, (-1, -1, 0, 0, False, None), problems, (), True)
