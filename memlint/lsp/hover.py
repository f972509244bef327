"""The hover text of a key: the run's memory by phase, now and with other values of the key.

As with fixes, another value is written into the file in memory, and the file is parsed and estimated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import memlint.report.card_figures as card_figures
from memlint._record import NamedTuple
from memlint.findings import Edit
from memlint.fixes.attempt import attempt
from memlint.lsp.keys import (
    KeyFacts,
    as_written,
    default_in_force,
    documents_at,
    format_of,
    keys_at,
    pointer_at,
    value_at,
)
from memlint.lsp.session import CheckedFile
from memlint.memory.values import Estimate
from memlint.report.model import PART
from memlint.report.units import gib
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.source.document import Document, Path, Span

MOST_VALUES = 3  # other values that are tried
HEADINGS = {"optimizer_step": "optimizer"}


class HoveredKey(NamedTuple):
    """A key in a document, the analysis and the run that it belongs to, and the framework's facts about it."""

    analysis: Analysis
    document: Document
    pointer: Path
    run: int
    facts: KeyFacts | None
    format: str

    @property
    def span(self) -> Span:
        place = self.document.places[self.pointer]
        return place.key or place.value

    @property
    def value(self) -> Any:
        return value_at(self.document, self.pointer)


def key_at(path: str, offset: int, known: Iterable[CheckedFile]) -> HoveredKey | None:
    """The key at an offset of a file. If the file takes part in another file's run, the key is one of that run."""
    found = [key for one in known for key in _keys_at(path, offset, one.analyses)]
    return min(found, key=lambda key: _is_part(key.analysis), default=None)


def _keys_at(path: str, offset: int, analyses: tuple[Analysis, ...]) -> Iterator[HoveredKey]:
    for analysis, document in documents_at(path, analyses):
        pointer = pointer_at(document, offset)
        if pointer is None or not analysis.runs:
            continue
        while isinstance(pointer[-1], int) and len(pointer) > 1:
            pointer = pointer[:-1]  # an item of a list belongs to the key of the list
        format_ = format_of(analysis, document)
        facts = keys_at(format_.SCHEMA, pointer[:-1]).key(str(pointer[-1])) if format_ is not None else None
        yield HoveredKey(analysis, document, pointer, 0, facts, format_.NAME if format_ is not None else "")


def _is_part(analysis: Analysis) -> bool:
    return analysis.runs[0].purpose == PART


def hover(key: HoveredKey, reanalyse: Callable[[Analysis], Reanalyse]) -> str:
    """The text of a hover, in Markdown. Raises Superseded."""
    return "\n\n".join(filter(None, (_heading(key), key.facts.about if key.facts else "", effect(key, reanalyse))))


def _heading(key: HoveredKey) -> str:
    name = ".".join(map(str, key.pointer))
    facts = key.facts or KeyFacts(name)
    in_force = default_in_force(key.format, name, key.analysis.runs[key.run])
    description = facts._replace(default=in_force or facts.default).description()
    return f"**{name}**" + (f" ({description})" if description else "")


def effect(key: HoveredKey, reanalyse: Callable[[Analysis], Reanalyse]) -> str:
    """The table of the run as it is and with other values; one line if no tried value changes anything."""
    now = key.analysis.estimates[key.run]
    if _is_part(key.analysis) or now.on_card is None:
        return ""
    again = reanalyse(key.analysis)
    tried = [(value, found) for value in other_values(key) if (found := _with_value(key, value, again)) is not None]
    different = [(value, found) for value, found in tried if figures(found) != figures(now)]
    if different:
        return "\n".join(_table([(f"{as_written(key.value)} (now)", now), *_named(different)]))
    figure = f"This run takes {card_figures.peak(now)}: {card_figures.words_of(now)}."
    same = " or ".join(as_written(value) for value, _ in tried)
    return figure + (f" With {same} it takes the same." if same else "")


def _named(tried: list[tuple[Any, Estimate]]) -> Iterator[tuple[str, Estimate]]:
    return ((as_written(value), found) for value, found in tried)


def other_values(key: HoveredKey) -> tuple[Any, ...]:
    """The values to try: the opposite of a flag, the first others that the schema lists, else half and double."""
    value, facts = key.value, key.facts
    if isinstance(value, bool):
        return (not value,)
    listed = [other for other in facts.values if type(other) is type(value) and other != value] if facts else []
    if listed:
        return tuple(listed[:MOST_VALUES])
    if isinstance(value, int):
        return tuple(other for other in (value // 2, value * 2) if other > 0 and other != value)
    if isinstance(value, float):
        return tuple(other for other in (value / 2, value * 2) if other != value)
    return ()


def figures(estimate: Estimate) -> tuple[object, ...]:
    """The figures of an estimate that a hover shows."""
    return estimate.on_card, tuple((phase.name, phase.allocated_bytes) for phase in estimate.phases)


def _with_value(key: HoveredKey, value: Any, reanalyse: Reanalyse) -> Estimate | None:
    """The estimate with another value of the key; None if the file cannot express it or no longer has this run."""
    tried = attempt(key.analysis, (Edit(key.document.path, key.pointer, "set", value),), None, reanalyse)
    if not tried.holds or tried.after is None or len(tried.after.estimates) != len(key.analysis.estimates):
        return None
    found = tried.after.estimates[key.run]
    return found if found.on_card is not None else None


def _table(columns: list[tuple[str, Estimate]]) -> Iterator[str]:
    """A row per phase and a column per value, in GiB of tensors; the last row is the total on the card."""
    yield f"| GiB | {' | '.join(name for name, _ in columns)} |"
    yield "|---" + "|--:" * len(columns) + "|"
    phases = [{phase.name: phase.allocated_bytes for phase in found.phases} for _, found in columns]
    for name in dict.fromkeys(name for one in phases for name in one):
        yield _row(HEADINGS.get(name, name), (gib(one[name]) if name in one else "-" for one in phases))
    yield _row("on the card", (card_figures.peak(found) for _, found in columns))
    yield _row("verdict", (card_figures.words_of(found) for _, found in columns))


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"
