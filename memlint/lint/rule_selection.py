"""Refuses selectors that match no rule: a typo in `--select` would otherwise look like a clean file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.rule_selectors import covers
from memlint.settings import FileSettings


def check_selection(
    settings: FileSettings, rules: Callable[[], Sequence[tuple[str, str]]], from_command_line: Sequence[str] = ()
) -> None:
    """Raises UsageError for a selector in settings or on the command line that matches no rule.

    `rules()`: (id, name) of all rules. `from_command_line`: selectors for which the error message names no place in a
    settings file.
    """
    selectors = [("select", selector) for selector in settings.select] + [
        ("ignore", selector) for selector in settings.ignore
    ]
    selectors += [(f"severity.{selector}", selector) for selector in settings.severity]
    for key, selector in selectors:
        if selector != "all" and not any(covers(selector, rule, name) for rule, name in rules()):
            near = nearest(selector, _names(rules()))
            hint = f": did you mean {near}?" if near else "; `memlint rules --all` lists them"
            place = "" if selector in from_command_line else place_of(settings, key)
            raise UsageError(f"{place}no rule is called {selector!r}{hint}")


def place_of(settings: FileSettings, key: str) -> str:
    """The place of a setting, as an error message begins: "settings: memlint.yaml:3:5: ". "" if no file sets it."""
    origin = settings.origins.get(key)
    return f"settings: {os.path.relpath(origin.path)}:{origin.line}:{origin.column}: " if origin and origin.path else ""


def _names(rules: Iterable[tuple[str, str]]) -> list[str]:
    """Every selector that matches: ids (MEM001), names (memory/over-the-card) and families (memory)."""
    words = {word for rule, name in rules for word in (rule, name, name.partition("/")[0], rule[:3])}
    return sorted(words)
