"""Texts of a file that its parser makes no number or boolean of, where the schema wants one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memlint.formats.base import Issue
from memlint.formats.fields import Section, as_bool, as_int, as_number
from memlint.source.document import Path

_READS: Mapping[str, tuple[Callable[[Any], Any], str]] = {
    "number": (as_number, "number"),
    "integer": (as_int, "whole number"),
    "boolean": (as_bool, "true or false"),
}


def unread_texts(
    section: Section, schema: Mapping[str, Any], refuses: str, value: Any = None, above: Path = ()
) -> Iterator[Issue]:
    """`refuses`: what the framework does then. Of the types of a key, the first is what its parser makes."""
    if value is None and not above:
        value = section.value
    if isinstance(value, dict):
        for key, inner in value.items():
            below = schema.get("properties", {}).get(key)
            if isinstance(below, dict):
                yield from unread_texts(section, below, refuses, inner, (*above, key))
        return
    kinds = schema.get("type", ())
    wanted = next((kind for kind in _READS if kind in kinds[:1]), "")
    if not isinstance(value, str) or not wanted or value == "auto":
        return
    reads, noun = _READS[wanted]
    if reads(value) is None:
        message = f"`{'.'.join(map(str, above))}: {value}` is no {noun}: {refuses}"
        yield section.issue("wrong-type", message, *above)
