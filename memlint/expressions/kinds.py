"""Types of the rule language: which kinds of value an expression may give.

A kind is one of `int float bool str null list map version`. A `Type` is a set of them, because one
key of a config may hold several (`"auto"` or a number).
"""

from __future__ import annotations

from memlint._record import NamedTuple

Kinds = frozenset[str]


class Type(NamedTuple):
    """`choices`: the strings a `str` may be, where they are known. `items`: the kinds of a list's items."""

    kinds: Kinds
    choices: tuple[str, ...] = ()
    items: Kinds | None = None


def _kinds(words: str) -> Kinds:
    return frozenset(words.split())


ALL = _kinds("int float bool str null list map version")
NUMERIC = _kinds("int float")

ANY = Type(ALL)
INT = Type(_kinds("int"))
NUMBER = Type(NUMERIC)
BOOL = Type(_kinds("bool"))
STR = Type(_kinds("str"))
NULL = Type(_kinds("null"))
VERSION = Type(_kinds("version"))


def of(words: str, choices: tuple[str, ...] = ()) -> Type:
    """A type by the names of its kinds: `of("int null")`."""
    return Type(_kinds(words), choices)


def list_of(items: Kinds) -> Type:
    return Type(_kinds("list"), items=items)


def union(left: Type, right: Type) -> Type:
    """What either may be. Choices last only while both sides have them (or have no strings at all)."""
    return Type(left.kinds | right.kinds, _union_choices(left, right), _union_items(left, right))


def _union_choices(left: Type, right: Type) -> tuple[str, ...]:
    sides = [side for side in (left, right) if "str" in side.kinds]
    if not all(side.choices for side in sides):
        return ()
    return tuple(dict.fromkeys(choice for side in sides for choice in side.choices))


def _union_items(left: Type, right: Type) -> Kinds | None:
    sides = [side.items for side in (left, right) if "list" in side.kinds]
    known = [items for items in sides if items is not None]
    if not sides or len(known) < len(sides):
        return None
    return frozenset().union(*known)


def comparable(left: Kinds, right: Kinds) -> bool:
    """Whether values of these kinds can ever be equal: `int` and `float` are one family."""
    return bool(left & right) or bool(left & NUMERIC and right & NUMERIC)


def text(kinds: Kinds) -> str:
    """The kinds in words for a message: `int or str`."""
    return "any value" if kinds >= ALL else " or ".join(sorted(kinds))
