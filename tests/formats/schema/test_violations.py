"""What the parts of a schema say together: sections, leniency of older releases, misplaced and outdated keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import pytest

from memlint.formats.base import Issue
from memlint.formats.schema.refs import MAX_ISSUES, CompiledSchema
from memlint.formats.schema.violations import MAX_NODES, errors, outdated_issue

SECTION = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"stage": {"type": "integer"}, "device": {"enum": ["cpu", "none"]}},
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "rank": {"type": "integer"},
        "names": {"type": "array", "items": {"type": "string"}},
        "zero": SECTION,
        "engine": {"anyOf": [{"type": "string"}, SECTION]},
        "late": {**SECTION, "x-memlint-checked-since": "deepspeed 0.17.1"},
    },
}


def found(
    value: Any, schema: dict[str, Any] = SCHEMA, versions: Mapping[str, tuple[int, ...]] | None = None
) -> list[Issue]:
    compiled = CompiledSchema(schema, schema)
    return list(errors(jsonschema_rs.Draft202012Validator(schema), compiled, value, "a.yaml", versions or {}))


def only(value: Any, schema: dict[str, Any] = SCHEMA) -> Issue:
    (issue,) = found(value, schema)
    return issue


def test_a_valid_value_has_no_errors() -> None:
    assert found({"rank": 8, "zero": {"stage": 3}, "engine": "ddp"}) == []


def test_an_error_stands_at_its_place() -> None:
    issue = only({"zero": {"stage": "x"}})
    assert (issue.code, issue.path, issue.pointer) == ("wrong-type", "a.yaml", ("zero", "stage"))


def test_inside_a_mapping_that_could_have_been_text_its_keys_are_named() -> None:
    assert only({"engine": {"device": "gpu"}}).pointer == ("engine", "device")
    assert only({"engine": {"unheard_of": 1}}).message == "unknown key `unheard_of`"
    assert only({"engine": 3}).message == "`engine` wants a string or a mapping, got 3"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"stage": 1}, "it belongs into `zero`"),
        ({"zero": {"rank": 8}}, "it belongs to the top level of the file"),
        ({"wrapper": {"rank": 8, "zero": {}}}, "`rank`, `zero` belong one level higher, not below it"),
        ({"wrapper": {"rank": 8}}, "`rank` belongs one level higher, not below it"),
    ],
)
def test_a_key_that_is_at_home_elsewhere(value: Any, message: str) -> None:
    """Where a key has one home; the section that takes it stands beside it, or it stands beside the section."""
    schema = {**SCHEMA, "properties": {key: SCHEMA["properties"][key] for key in ("rank", "names", "zero")}}
    issue = only(value, schema)
    assert issue.message.endswith(message) and issue.suggestion == ""


@pytest.mark.parametrize(
    ("instead", "message"),
    [({}, "unknown key `old`"), ({"x-memlint-renamed-to": "new"}, "`zero` had it, and calls it `new` now")],
)
def test_a_key_is_not_sent_to_a_section_that_has_lost_it(instead: dict[str, str], message: str) -> None:
    """DeepSpeed's `find_unused_parameters` is refused in `zero_optimization` too."""
    lost = {"old": {"type": "boolean", "x-memlint-removed-in": "engine 0.4.0", **instead}}
    zero = {"type": "object", "properties": lost, "additionalProperties": False}
    schema = {**SCHEMA, "properties": {"zero": zero}}
    assert only({"old": True}, schema).message.endswith(message)


def test_a_section_is_not_sent_to_a_place_that_takes_none() -> None:
    schema = {**SCHEMA, "properties": {key: SCHEMA["properties"][key] for key in ("rank", "names", "zero")}}
    assert only({"zero": {"rank": {"deep": 8}}}, schema).message == "unknown key `rank`"


def test_a_key_with_two_homes_is_sent_to_neither() -> None:
    assert "belongs" not in only({"stage": 1}).message


@pytest.mark.parametrize(("severity", "count"), [("error", 1), ("warning", 1), ("ignore", 0)])
def test_the_schema_says_how_bad_an_unknown_key_is(severity: str, count: int) -> None:
    assert [one.severity for one in found({"abc": 1}, {**SCHEMA, "x-memlint-unknown": severity})] == [severity] * count


def test_a_section_that_older_releases_did_not_check_only_warns() -> None:
    issue = only({"late": {"stage": "x"}})
    assert issue.severity == "warning" and issue.message.endswith("; releases before deepspeed 0.17.1 take it")
    assert found({"late": {"stage": "x"}}, versions={"deepspeed": (0, 16)}) == []
    assert len(found({"late": {"stage": "x"}}, versions={"deepspeed": (0, 18)})) == 1


def test_several_keys_copied_into_such_a_section_are_one_warning() -> None:
    issue = only({"late": {"zzzzz": 1, "yyyyy": 2, "xxxxx": 3}})
    assert issue.message.startswith("unknown keys ") and issue.message.count("`") == 6


def test_issues_are_limited() -> None:
    assert len(found({"names": [0] * 500})) == MAX_ISSUES
    assert len(found({f"zzz{number}": 1 for number in range(500)})) == MAX_ISSUES


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {None: 0}, {"names": float("nan")}, {"a\ud800": 1}, {"names": ["\udfff", 3]}, {"engine": float("-inf")}],
)
def test_values_that_json_cannot_hold_have_errors(value: Any) -> None:
    assert found(value)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 10**50])
def test_integers_beyond_64_bits_stay_integers(number: int) -> None:
    assert found({"rank": number}) == []


def test_a_value_of_too_many_nodes_is_cut_off() -> None:
    """What lies beyond counts as null, which is no text: the list has errors, and is not walked to its end."""
    node: Any = []
    for _ in range(64):
        node = [node, node]

    assert found({"names": node})
    assert found({"names": ["x"] * (MAX_NODES // 2)}) == []


@pytest.mark.parametrize(
    ("schema", "code", "message", "suggestion"),
    [
        ({"x-memlint-removed-in": "trl 1.0"}, "removed-key", "`old` is gone since trl 1.0: leave it out", ""),
        ({"x-memlint-renamed-to": "new"}, "renamed-key", "`old` has another name now: use `new`", "new"),
        (
            {"x-memlint-renamed-to": "new", "x-memlint-other-value": True, "x-memlint-note": "a list"},
            "renamed-key",
            "`old` has another name now: use `new` (a list)",
            "",
        ),
        (
            {"x-memlint-removed-values": {"v": "trl 1.0"}, "x-memlint-value-aliases": {"v": "w"}},
            "removed-value",
            "`old: v` is gone since trl 1.0: use `w`",
            "w",
        ),
    ],
)
def test_what_is_said_of_an_outdated_key(schema: dict[str, Any], code: str, message: str, suggestion: str) -> None:
    issue = outdated_issue(schema, "v", ("old",), "a.yaml", {})
    assert (issue.code, issue.message, issue.suggestion, issue.severity) == (code, message, suggestion, "warning")


def test_an_outdated_key_of_a_section_is_named_with_it() -> None:
    issue = outdated_issue({"x-memlint-removed-in": "trl 1.0"}, 1, ("compile", "enabled"), "a.yaml", {})
    assert issue.message.startswith("`compile.enabled` ")
