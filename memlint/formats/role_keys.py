"""Rows of key tables for the models of reinforcement learning.

A framework's file has a section for each of them (policy, reference, critic, what writes responses, reward model) with
the same keys: these are written once.
"""

from __future__ import annotations

from collections.abc import Iterable

from memlint.formats.keys import Key


def of_role(rows: Iterable[Key], role: str, noun: str, reader: str = "") -> tuple[Key, ...]:
    """`rows` for one role. `{role}` in their names is its section, `{noun}` in their texts what it is called. `reader`:
    the key whose `read` reads the rows that have none."""
    return tuple(_filled(row, {"role": role, "noun": noun}, reader) for row in rows)


def _filled(row: Key, words: dict[str, str], reader: str) -> Key:
    return row._replace(
        name=row.name.format_map(words),
        older=tuple(name.format_map(words) for name in row.older),
        about=row.about.format_map(words),
        read_with=reader if reader and row.read is None else row.read_with,
    )
