"""Words that choose rules must name some: a slip in `--select` would otherwise look like a clean file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memlint.commands import CommandError
from memlint.formats.suggest import nearest
from memlint.selectors import covers
from memlint.settings import FileSettings


def check_selection(settings: FileSettings, known: Sequence[tuple[str, str]]) -> None:
    """Raises CommandError for a word of the command line or of settings that names no rule."""
    for word in (*settings.select, *settings.ignore, *settings.severity):
        if not any(covers(word, rule, name) for rule, name in known):
            near = nearest(word, _names(known))
            hint = f": did you mean {near}?" if near else "; `memlint rules --all` lists them"
            raise CommandError(f"no rule is called {word!r}{hint}")


def _names(known: Iterable[tuple[str, str]]) -> list[str]:
    """Ids, names and families."""
    words = {word for rule, name in known for word in (rule, name, name.partition("/")[0], rule[:3])}
    return sorted(words)
