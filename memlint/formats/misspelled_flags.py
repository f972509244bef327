"""Flags that misspell one that a program defines: its argument parser refuses them, and the run ends at once."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Section
from memlint.formats.schema.suggest import slip_of
from memlint.formats.schema.validate import compiled_schema


def misspelled_flags(section: Section, schema: str) -> Iterator[Issue]:
    """An error for each key that `schema` does not list and that misspells one that it lists.

    Releases and forks differ in their flags, so nothing is said of any other key. argparse takes the beginning of a
    flag's name for the flag.
    """
    known = compiled_schema(schema).schema["properties"]
    start = section.document.start
    defined = start.accepted.defined if start is not None else frozenset()
    for key in section.value:
        if isinstance(key, str) and key not in known and key not in defined:
            near = slip_of(key, known, section.value)
            if near and not near.startswith(key):
                message = f"unknown key `{key}`: did you mean `{near}`?"
                yield section.issue("unknown-key", message, key, on_key=True, suggestion=near)
