"""Flat YAML without a YAML parser: a key and a word on each line, as most LLaMA-Factory configs are written.

Importing PyYAML takes a tenth of the time that a check of one file takes. What is read here is read as PyYAML would
read it, place by place (tests/laws/test_source_laws.py); at the first line that could mean anything else the whole
text is left to `memlint.source.yaml`.
"""

from __future__ import annotations

from typing import Any

from memlint.source.layout import Entry
from memlint.source.scalars import RESOLVERS, Scalar, ScalarProblem
from memlint.source.tree import Tree

MAX_TEXT = 64 * 1024
MAX_KEY = 200  # YAML's own limit is 1,024 characters up to the colon
_WORD = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_/~+(."
_FIRST = frozenset(_WORD)
_INSIDE = _WORD + ") ,=@*%-"  # inside of a plain scalar these mean nothing but themselves, wherever they stand
_NOT_INSIDE = str.maketrans("", "", _INSIDE)
_NOT_QUOTED = str.maketrans("", "", _INSIDE + ":[]{}<>|&;!?#`$^")


def flat(text: str, dialect: str) -> Tree | None:
    """The one document of a flat YAML text; None where it is not certainly flat."""
    if len(text) > MAX_TEXT or not text.isascii():
        return None
    resolve = RESOLVERS[dialect]
    value: dict[Any, Scalar] = {}
    entries: dict[Any, Entry] = {}
    begin = last = -1
    offset = 0
    try:
        for line in text.split("\n"):
            if not line.isprintable():  # a tab, a carriage return, a control character
                return None
            if line[:1] not in _BLANK:
                name, colon, rest = line.partition(":")
                if not colon or not name.isidentifier() or len(name) > MAX_KEY:
                    return None
                key = resolve(name)
                found = _scalar(rest)
                if found is None or key in entries:
                    return None
                word, first, width, plain = found
                if begin < 0:
                    begin = offset
                behind = offset + len(name) + 1
                last = behind + first + width
                value[key] = resolve(word) if plain else word
                entries[key] = (offset, behind - 1, behind + first, last, plain, None)
            elif line.lstrip(" ")[:1] not in _COMMENT:
                return None
            offset += len(line) + 1
    except ScalarProblem:
        return None
    return None if begin < 0 else Tree(value, (-1, -1, begin, last, False, entries))


_BLANK = frozenset(("", " ", "#"))
_COMMENT = frozenset(("", "#"))


def _scalar(rest: str) -> tuple[str, int, int, bool] | None:
    """The scalar behind a colon: its text, where it starts, how wide it is, and whether it is plain."""
    if not rest:
        return "", 0, 0, True
    if rest[0] != " ":
        return None
    comment = rest.find(" #")
    body = (rest if comment < 0 else rest[:comment]).rstrip(" ")
    word = body.lstrip(" ")
    if not word:
        return "", 0, 0, True
    start = len(body) - len(word)
    first = word[0]
    if first in "\"'":
        inner = word[1:-1]
        closed = len(word) > 1 and word[-1] == first and not inner.translate(_NOT_QUOTED)
        return (inner, start, len(word), False) if closed else None
    if word.translate(_NOT_INSIDE) or not (first in _FIRST or (first == "-" and word[1:2] in _FIRST)):
        return None
    return word, start, len(word), True
