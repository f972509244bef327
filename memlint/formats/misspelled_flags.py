"""Flags that a program does not define: its argument parser refuses them, and the run ends at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from memlint.formats.base import Issue
from memlint.formats.fields import Section
from memlint.formats.schema.suggest import slip_of
from memlint.formats.schema.validate import compiled_schema

_MOST_NAMED = 3


def misspelled_flags(section: Section, schema: str) -> Iterator[Issue]:
    """An error for each key that `schema` does not list and that misspells one that it lists.

    Releases and forks differ in their flags, so nothing is said of any other key. argparse takes the beginning of a
    flag's name for the flag.
    """
    known = compiled_schema(schema).schema["properties"]
    for key in unknown_flags(section, schema):
        near = slip_of(key, known, section.value)
        if near and not near.startswith(key):
            message = f"unknown key `{key}`: did you mean `{near}`?"
            yield section.issue("unknown-key", message, key, on_key=True, suggestion=near)


def unknown_flags(section: Section, schema: str) -> tuple[str, ...]:
    """The flags that neither `schema` lists nor a copy of the program in the repository defines."""
    known = compiled_schema(schema).schema["properties"]
    start = section.document.start
    defined = start.accepted.defined if start is not None else frozenset()
    return tuple(key for key in section.value if isinstance(key, str) and key not in known and key not in defined)


def foreign_flags(section: Section, schema: str, told: Iterable[Issue], program: str) -> Iterator[Issue]:
    """A warning about flags that no release of `program` defines, beside those of the issues `told`.

    One fact, however many they are: the command is for a fork that is not here, or its parser refuses it. argparse
    takes the beginning of a flag's name for the flag.
    """
    known, slips = compiled_schema(schema).schema["properties"], {issue.pointer for issue in told}
    foreign = [
        key
        for key in unknown_flags(section, schema)
        if (key,) not in slips and not any(name.startswith(key) for name in known)
    ]
    if foreign:
        names = ", ".join(f"`{key}`" for key in foreign[:_MOST_NAMED])
        more = f" and {len(foreign) - _MOST_NAMED} more" if len(foreign) > _MOST_NAMED else ""
        noun = "key" if len(foreign) == 1 else "keys"
        message = f"unknown {noun} {names}{more}: {program} refuses the command"
        where = "it is not for a fork"
        yield section.issue("unknown-key", message, foreign[0], severity="warning", on_key=True, where=where)
