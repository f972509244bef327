"""References inside a schema, the part of it that answers for a place, and which releases an annotation means."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.schema.refs import (
    CompiledSchema,
    follow,
    is_outdated,
    is_removed_value,
    still_there,
    subschema,
)

ROOT: dict[str, Any] = {
    "$defs": {
        "count": {"type": "integer"},
        "alias": {"$ref": "#/$defs/count"},
        "self": {"$ref": "#/$defs/self"},
        "section": {"type": "object", "properties": {"stage": {"$ref": "#/$defs/count"}}},
    }
}


def compiled(schema: dict[str, Any]) -> CompiledSchema:
    return CompiledSchema({**ROOT, **schema}, schema)


@pytest.mark.parametrize("name", ["count", "alias"])
def test_a_chain_of_references_is_followed_to_its_end(name: str) -> None:
    assert follow({"$ref": f"#/$defs/{name}"}, ROOT) == {"type": "integer"}


@pytest.mark.parametrize("reference", ["#/$defs/none", "other.json#/$defs/count", "#/$defs/count/type/deeper", 3])
def test_a_reference_that_leads_nowhere_stays(reference: Any) -> None:
    assert follow({"$ref": reference}, ROOT) == {"$ref": reference}


def test_a_reference_to_itself_ends() -> None:
    assert follow({"$ref": "#/$defs/self"}, ROOT) == {"$ref": "#/$defs/self"}


@pytest.mark.parametrize("value", [None, True, [], "text"])
def test_what_is_no_mapping_is_given_back(value: Any) -> None:
    assert follow(value, ROOT) is value


@pytest.mark.parametrize(
    ("schema", "pointer", "found"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/section"}}}, ("a", "stage"), {"type": "integer"}),
        ({"items": {"type": "string"}}, (7,), {"type": "string"}),
        ({"additionalProperties": {"type": "null"}}, ("anything",), {"type": "null"}),
        ({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/section"}]}, ("stage",), {"type": "integer"}),
        (
            {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "null"}},
            ("a",),
            {"type": "string"},
        ),
    ],
)
def test_the_part_for_a_place(schema: dict[str, Any], pointer: tuple[Any, ...], found: dict[str, Any]) -> None:
    assert subschema(compiled(schema), pointer) == found


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"properties": {"a": {"type": "string"}}}, ("b",)),
        ({"properties": {"a": {"type": "string"}}}, ("a", "b", 0)),
        ({"properties": {"a": True}}, ("a",)),
        ({"items": {"type": "string"}}, ("key",)),
        ({"additionalProperties": False}, ("key",)),
    ],
)
def test_nothing_answers_for_other_places(schema: dict[str, Any], pointer: tuple[Any, ...]) -> None:
    assert subschema(compiled(schema), pointer) == {}


@pytest.mark.parametrize(
    ("used", "there"),
    [((4, 45), True), ((4, 57, 6), True), ((5,), False), ((5, 0), False), ((5, 1), False), (None, False), ((), False)],
)
def test_what_a_release_removed_is_there_in_those_that_are_known_to_be_older(
    used: tuple[int, ...] | None, there: bool
) -> None:
    versions = {} if used is None else {"transformers": used}
    assert still_there("transformers 5", versions) is there


@pytest.mark.parametrize("removed", ["", "transformers", "transformers soon", "trl 1.0"])
def test_without_a_release_of_the_framework_in_use_nothing_is_known_to_be_there(removed: str) -> None:
    assert not still_there(removed, {"transformers": (4, 45)})


def test_only_values_that_are_listed_are_removed_ones() -> None:
    schema = {"x-memlint-removed-values": {"ktransformers": "llamafactory 0.9.5"}}

    assert is_removed_value(schema, "ktransformers", {})
    assert not is_removed_value(schema, "ktransformers", {"llamafactory": (0, 9, 4)})
    assert not is_removed_value(schema, "vllm", {})
    assert not is_removed_value(schema, ["ktransformers"], {})
    assert not is_removed_value({}, "ktransformers", {})


def test_a_key_whose_value_alone_is_gone_is_outdated_with_that_value_alone() -> None:
    schema = {"x-memlint-removed-values": {"old": "trl 1.0"}}

    assert is_outdated(schema, "old", {})
    assert not is_outdated(schema, "new", {})


def test_a_key_that_is_gone_is_outdated_whatever_its_value() -> None:
    schema = {"x-memlint-removed-in": "trl 1.0", "x-memlint-removed-values": {"old": "trl 0.9"}}

    assert is_outdated(schema, "new", {})
    assert not is_outdated(schema, "new", {"trl": (0, 9, 5)})
    assert is_outdated(schema, "old", {"trl": (0, 9, 5)})


def test_a_renamed_key_is_outdated_in_every_release() -> None:
    assert is_outdated({"x-memlint-renamed-to": "b"}, 1, {"trl": (0, 1)})
