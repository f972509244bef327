"""Plain values, which a schema accepts at sight: numbers, words, true, false and null, as most configs have them.

Anything else is asked of jsonschema-rs. Loading that is a seventh of the instructions of a start (a library of 14 MB,
which imports the standard library's e-mail and sockets), so it is loaded where it has something to decide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from memlint.formats.schema.refs import Schema, follow

Test = tuple[Callable[[Any, Any], bool], Any]  # (what is asked of a keyword's value and a config's value, the former)

_TYPES: Mapping[type, tuple[str, ...]] = {
    str: ("string",),
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    type(None): ("null",),
}
_LIMITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.le,
    "maximum": operator.ge,
    "exclusiveMinimum": operator.lt,
    "exclusiveMaximum": operator.gt,
}
_OF_A_MAPPING = frozenset(("type", "properties", "additionalProperties"))
_OF_A_VALUE = frozenset(("type", "enum", "anyOf", *_LIMITS))
_ANNOTATIONS = frozenset(("$schema", "$id", "$defs", "title", "description", "default", "deprecated"))


def lists_keys(schema: Schema) -> bool:
    """Whether a schema says of a mapping which keys it has, and nothing else."""
    return schema.get("type") == "object" and _has_only(schema, _OF_A_MAPPING)


def plain_tests(schema: Schema, root: Schema) -> tuple[Test, ...] | None:
    """What a plain value must pass for the schema of one key to accept it; None where jsonschema-rs has to be asked.

    `root`: the schema of the file, to which references refer.
    """
    if "$ref" in schema and _has_only(schema, frozenset(("$ref",))):
        schema = follow(schema, root)
    if not _has_only(schema, _OF_A_VALUE):
        return None
    tests = [(_TESTS[word], wanted) for word, wanted in schema.items() if word in _TESTS]
    if "anyOf" in schema:
        branches = [plain_tests(branch, root) for branch in schema["anyOf"]]
        tests.append((_is_any_of, [branch for branch in branches if branch is not None]))
    return tuple(tests)


def passes(tests: Iterable[Test], value: Any) -> bool:
    """Whether a plain value passes all tests."""
    return all(test(wanted, value) for test, wanted in tests)


def is_plain(value: Any) -> bool:
    """Whether a value is a scalar that JSON can hold: no infinity, no half of a surrogate pair."""
    if type(value) is str:
        return value.isprintable()
    return isfinite(value) if type(value) is float else type(value) in _TYPES


def _is_of_type(wanted: str | list[str], value: Any) -> bool:
    names = _TYPES[type(value)]
    return wanted in names if isinstance(wanted, str) else any(name in wanted for name in names)


def _is_listed(wanted: list[Any], value: Any) -> bool:
    return any(type(one) is type(value) and one == value for one in wanted)


def _is_any_of(branches: list[tuple[Test, ...]], value: Any) -> bool:
    return any(passes(branch, value) for branch in branches)


def _is_within(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """The test of a limit: a number for which `holds(limit, number)`."""
    return lambda limit, value: type(value) in (int, float) and holds(limit, value)


_TESTS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": _is_of_type,
    "enum": _is_listed,
    **{word: _is_within(holds) for word, holds in _LIMITS.items()},
}


def _has_only(schema: Schema, words: frozenset[str]) -> bool:
    """Whether a schema has no keywords but these and annotations."""
    return all(word in words or word in _ANNOTATIONS or word.startswith("x-memlint-") for word in schema)
