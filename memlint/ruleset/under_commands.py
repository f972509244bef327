"""Holds the findings on a config against the commands that launch it.

The options of a command stand over the config: `--bnb_4bit_quant_storage bfloat16` mends what the file alone would do
wrong. What no command brings about is not said of the file; what a script's command adds is said of the script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from memlint.formats.base import Launch
from memlint.ruleset.found import Found
from memlint.source.document import Document

MOST_COMMANDS = 8  # with options that differ


def as_launched(document: Document, launches: Sequence[Launch]) -> tuple[Document, ...]:
    """The config with the options of each command over it; none if one of them leaves it as it is."""
    if document.start is not None or not isinstance(document.value, dict):
        return ()
    found: list[dict[object, object]] = []
    for launch in launches:
        value = {**document.value, **dict(launch.options)}
        if value == document.value:
            return ()
        if value not in found:
            found.append(value)
    return tuple(document._replace(value=value) for value in found) if len(found) <= MOST_COMMANDS else ()


def without_settled(
    found: Iterable[Found], documents: Iterable[Document], hits_of: Callable[[Document], Iterable[Found]]
) -> list[Found]:
    """The findings without those of rules that hold of no document as a command launches it. `hits_of`: what the rules
    find in one of them."""
    kept, launched = list(found), list(documents)
    if not launched:
        return kept
    remain = {(item.finding.rule, item.run) for document in launched for item in hits_of(document)}
    return [item for item in kept if (item.finding.rule, item.run) in remain]
