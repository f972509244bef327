"""Words that choose rules must name some: a slip in `--select` would otherwise look like a clean file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.rule_selectors import covers
from memlint.settings import FileSettings


def check_selection(settings: FileSettings, known: Sequence[tuple[str, str]], asked: Sequence[str] = ()) -> None:
    """Raises UsageError for a word of the command line (`asked`) or of settings that names no rule."""
    words = [("select", word) for word in settings.select] + [("ignore", word) for word in settings.ignore]
    words += [(f"severity.{word}", word) for word in settings.severity]
    for key, word in words:
        if not any(covers(word, rule, name) for rule, name in known):
            near = nearest(word, _names(known))
            hint = f": did you mean {near}?" if near else "; `memlint rules --all` lists them"
            place = "" if word in asked else place_of(settings, key)
            raise UsageError(f"{place}no rule is called {word!r}{hint}")


def place_of(settings: FileSettings, key: str) -> str:
    """ "settings: memlint.yaml:3:5: ", where settings say `key`; "" where they do not."""
    said = settings.origins.get(key)
    return f"settings: {os.path.relpath(said.path)}:{said.line}:{said.column}: " if said and said.path else ""


def _names(known: Iterable[tuple[str, str]]) -> list[str]:
    """Ids, names and families."""
    words = {word for rule, name in known for word in (rule, name, name.partition("/")[0], rule[:3])}
    return sorted(words)
