"""Mappings that a schema accepts at sight: known keys with numbers, words, true, false and null, as most configs are.

Anything else is asked of jsonschema-rs. Loading that is a seventh of the instructions of a start (a library of 14 MB,
which imports the standard library's e-mail and sockets), so it is loaded where it has something to decide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from memlint.formats.schema.refs import Schema, follow

_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
}
_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_OF_A_MAPPING = frozenset(("type", "properties", "additionalProperties"))
_OF_A_VALUE = frozenset(("type", "enum", "anyOf", *_LIMITS))
_ANNOTATIONS = frozenset(("$schema", "$id", "$defs", "title", "description", "default", "deprecated"))


def accepts_at_sight(schema: Schema, value: Any, root: Schema) -> bool:
    """Whether `schema` surely accepts a mapping. False says nothing: jsonschema-rs has to be asked.

    `root`: the schema of the file, to which references refer.
    """
    if type(value) is not dict or schema.get("type") != "object" or not _has_only(schema, _OF_A_MAPPING):
        return False
    known = schema.get("properties", {})
    return all(key in known and _is_plain(one) and _accepts(known[key], one, root) for key, one in value.items())


def _is_plain(value: Any) -> bool:
    """Whether a value is a scalar that JSON can hold: no infinity, no half of a surrogate pair."""
    if type(value) is str:
        return value.isprintable()
    return isfinite(value) if type(value) is float else type(value) in _TYPES


def _accepts(schema: Schema, value: Any, root: Schema) -> bool:
    """Whether the schema of one key surely accepts its value."""
    if "$ref" in schema and _has_only(schema, frozenset(("$ref",))):
        schema = follow(schema, root)
    tests = ((_TESTS[word], wanted) for word, wanted in schema.items() if word in _TESTS)
    return _has_only(schema, _OF_A_VALUE) and all(test(wanted, value, root) for test, wanted in tests)


def _is_of_type(wanted: str | list[str], value: Any, root: Schema) -> bool:
    return any(name in _TYPES[type(value)] for name in ([wanted] if isinstance(wanted, str) else wanted))


def _is_listed(wanted: list[Any], value: Any, root: Schema) -> bool:
    return any(type(one) is type(value) and one == value for one in wanted)


def _is_any_of(branches: list[Schema], value: Any, root: Schema) -> bool:
    return any(_accepts(branch, value, root) for branch in branches)


def _is_within(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Schema], bool]:
    """The test of a limit: a number for which `holds(number, limit)`."""
    return lambda limit, value, root: type(value) in (int, float) and holds(value, limit)


_TESTS: Mapping[str, Callable[[Any, Any, Schema], bool]] = {
    "type": _is_of_type,
    "enum": _is_listed,
    "anyOf": _is_any_of,
    **{word: _is_within(holds) for word, holds in _LIMITS.items()},
}


def _has_only(schema: Schema, words: frozenset[str]) -> bool:
    """Whether a schema has no keywords but these and annotations."""
    return all(word in words or word in _ANNOTATIONS or word.startswith("x-memlint-") for word in schema)
