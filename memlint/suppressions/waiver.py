"""A suppression that a settings file states, as `settings` reads it and `suppressions.apply` applies it."""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.run import Origin
from memlint.source.document import Path


class Waiver(NamedTuple):
    """Suppresses `rules` (selectors as in `memlint.rule_selectors`) at `pointer` and everywhere below it.

    `until`: the last day on which it holds, YYYY-MM-DD; "" for no end. `origin`: its place in the settings file.
    """

    rules: tuple[str, ...]
    pointer: Path
    reason: str
    until: str
    origin: Origin
