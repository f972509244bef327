"""Finds the catalog's row for a name that is not listed itself, by the rules of names.py."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.architectures import names
from memlint.architectures.model import StoredWeights

Row = Mapping[str, Any]


def by_rule(
    name: str, row_of: Callable[[str], Row | None]
) -> tuple[str, Mapping[str, Any], str, StoredWeights | None] | None:
    """(identifier, configuration, reason, how weights are stored), matching the parts of a path, last first.

    `row_of`: the catalog's row that has a key.
    """
    parts = names.components(name)
    for depth, part in enumerate(parts):
        for spelling in names.spellings(part):
            row = row_of(spelling.key)
            if row is not None:
                identifier = _nearest(row["ids"], spelling.key)
                if spelling.sizes not in (None, names.sizes(identifier.split("/")[-1])):
                    continue  # "LLaMA-2.7B" and "Llama-2-7b" have one key
                return identifier, row["config"], _reason(name, identifier, spelling, depth), spelling.stored
    return None


def _nearest(identifiers: list[str], key: str) -> str:
    """The first id of this line that has the key itself, else by its shortened name, else the first id."""
    for reading in (names.literal, names.key):
        for identifier in identifiers:
            if reading(identifier.split("/")[-1]) == key:
                return identifier
    return identifiers[0]


def _reason(name: str, identifier: str, spelling: names.Spelling, depth: int) -> str:
    part = names.components(name)[depth]
    if spelling.stored is None and part.lower() == identifier.split("/")[-1].lower():
        return f"`{part}` is the repository name of {identifier}"
    return f"`{part}` read as {identifier}: {spelling.rule}"
