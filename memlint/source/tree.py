"""One document as a reader made it, and how much of one is read."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Path, Problem
from memlint.source.layout import Entry

MAX_DEPTH = 64
MAX_NODES = 500_000  # about 0.6 s and 110 MiB
MAX_PROBLEMS = 200
TEMPLATE = "an unrendered template; render it first, or quote the value"


class Tree(NamedTuple):
    """`fixed`: keys and aliases keep another dialect from patching scalars in."""

    value: Any
    root: Entry
    problems: tuple[Problem, ...] = ()
    aliases: tuple[Path, ...] = ()
    fixed: bool = False


def failed(problems: tuple[Problem, ...]) -> Tree:
    return Tree(None, (-1, -1, 0, 0, False, None), problems, (), True)
