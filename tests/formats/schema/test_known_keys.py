"""Outdated keys are found at any depth; a key is looked up once."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.schema.known_keys import KnownKeys
from memlint.formats.schema.refs import MAX_ISSUES, CompiledSchema

GONE = {"x-memlint-removed-in": "trl 1.0", "type": "integer"}
SECTION = {"type": "object", "properties": {"old": GONE, "new": {"type": "integer"}}}
SCHEMA = {
    "type": "object",
    "properties": {
        "old": GONE,
        "new": {"type": "integer"},
        "section": {"$ref": "#/$defs/section"},
        "either": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/section"}]},
        "list": {"type": "array", "items": {"$ref": "#/$defs/section"}},
    },
    "$defs": {"section": SECTION},
}


def known() -> KnownKeys:
    return KnownKeys(CompiledSchema(SCHEMA, SCHEMA))


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"new": 1}, []),
        ({"old": 1, "new": 2}, [("old",)]),
        ({"section": {"old": 1}}, [("section", "old")]),
        ({"either": {"new": 0, "old": 1}}, [("either", "old")]),
        ({"list": [{"new": 1}, {"old": 1}, 3]}, [("list", 1, "old")]),
        ({"list": [{"old": 1}] * (MAX_ISSUES + 9)}, [("list", index, "old") for index in range(MAX_ISSUES)]),
        ({"section": [1], "list": {"old": 1}, "unknown": {"old": 1}, 3: {"old": 1}}, []),
        (None, []),
        ([{"old": 1}], []),
    ],
)
def test_outdated_keys(value: Any, places: list[tuple[str | int, ...]]) -> None:
    found = list(known().annotated(value))

    assert [place for _, _, place in found] == places
    assert all((schema, one) == (GONE, 1) for schema, one, _ in found)


def test_the_last_branch_that_says_something_counts() -> None:
    newer = {"x-memlint-renamed-to": "new"}
    schema = {"anyOf": [{"properties": {"old": GONE}}, {"properties": {"old": newer}}, {"properties": {"old": {}}}]}

    assert list(KnownKeys(CompiledSchema(schema, schema)).annotated({"old": 5})) == [(newer, 5, ("old",))]


def test_keys_that_no_schema_has_are_not_kept() -> None:
    keys = known()
    for number in range(100):
        list(keys.annotated({f"unknown{number}": 1}))
    list(keys.annotated({"new": 1}))

    assert list(keys._keys) == ["new"]
