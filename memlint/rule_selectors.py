"""Selectors of rules: an id (`MEM001`), a name (`memory/over-the-card`), a family (`memory`, `MEM`), or `all`."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SHAPE = re.compile(r"all|ALL|[A-Z]{3}[0-9]{0,3}|[a-z0-9]+(?:/(?:\*|[a-z0-9]+(?:-[a-z0-9]+)*)?)?")


def is_selector(text: str) -> bool:
    return _SHAPE.fullmatch(text) is not None


def rank(selector: str, rule: str, name: str) -> int:
    """How specifically `selector` covers the rule: 0 not at all, 1 by `all`, 2 and more by family, 9 exactly."""
    if selector in (rule, name):
        return 9
    if selector in ("all", "ALL"):
        return 1
    if selector.isupper() and rule.startswith(selector):
        return len(selector)
    return 2 if selector.removesuffix("*").removesuffix("/") == name.partition("/")[0] else 0


def covers(selector: str, rule: str, name: str) -> bool:
    return rank(selector, rule, name) > 0


def is_chosen(select: Iterable[str], ignore: Iterable[str], rule: str, name: str) -> bool:
    """Whether a rule is selected: the more specific selector wins; `ignore` if both are equally specific."""
    wanted = max((rank(selector, rule, name) for selector in select), default=0)
    return wanted > max((rank(selector, rule, name) for selector in ignore), default=0)
