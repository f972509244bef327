"""Selectors of rules, case-insensitive: an id (`MEM001`), a name (`memory/over-the-card`), a family (`memory`, `MEM`)
or `all`."""

from __future__ import annotations

import re
from collections.abc import Iterable

ITSELF = 9  # the rank of a rule's own id or name
_SHAPE = r"all|[a-z]{3}[0-9]{0,3}|[a-z0-9]+(?:/(?:\*|[a-z0-9]+(?:-[a-z0-9]+)*)?)?"


def is_selector(text: str) -> bool:
    return re.fullmatch(_SHAPE, text.lower()) is not None


def rank(selector: str, rule: str, name: str) -> int:
    """How specifically `selector` covers the rule: 0 not at all, 1 by `all`, 2 and more by family, 9 exactly."""
    word = selector.lower()
    if word == "all":
        return 1
    if word in (rule.lower(), name):
        return ITSELF
    if word == name.partition("/")[0]:
        return 2
    if word[:3] == rule[:3].lower() and (not word[3:] or word[3:].isdecimal()) and rule.lower().startswith(word):
        return len(word)
    return 2 if word.removesuffix("*").removesuffix("/") == name.partition("/")[0] else 0


def covers(selector: str, rule: str, name: str) -> bool:
    return rank(selector, rule, name) > 0


def is_chosen(select: Iterable[str], ignore: Iterable[str], rule: str, name: str) -> bool:
    """Whether a rule is selected: the more specific selector wins; `ignore` if both are equally specific."""
    return best_rank(select, rule, name) > best_rank(ignore, rule, name)


def best_rank(selectors: Iterable[str], rule: str, name: str) -> int:
    """The rank of the selector that names the rule most specifically."""
    best = 0
    for selector in selectors:
        best = max(best, rank(selector, rule, name))
    return best
