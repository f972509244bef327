"""The words for schema violations: what is wanted, what is there, what was probably meant."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from memlint.formats.base import Issue
from memlint.formats.schema.messages import describe, key_of, message_of, unknown_key, value_words
from memlint.formats.schema.validate import schema_issues

ROOT = {"$defs": {"count": {"type": "integer"}}}


def issue(schema: dict[str, Any], value: Any, aliases: dict[str, str] | None = None, key: str = "key") -> Issue:
    """The message for the first thing that is wrong with `key: value`."""
    (error,) = jsonschema_rs.Draft202012Validator(schema).iter_errors(value)
    schema = {**schema, "x-memlint-value-aliases": aliases or {}}
    return message_of(error, describe(schema, schema), "a.yaml", (key,), schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, "an integer"),
        ({"type": ["null", "string"]}, "a string or null"),
        ({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/count"}, {"type": "array"}]}, "an integer or a list or null"),
        ({"enum": ["pt", "sft"]}, "one of pt, sft"),
        ({"enum": ["No", "no", "yes"]}, "one of No, yes"),
        ({"enum": ["only"]}, "only"),
        ({"const": True}, "true"),
        ({"x-memlint-says": "a size", "type": "string"}, "a size"),
        ({"anyOf": [{"type": "integer"}, {"type": "integer", "minimum": 3}]}, "an integer"),
        ({}, "something else"),
    ],
)
def test_what_a_schema_wants(schema: dict[str, Any], words: str) -> None:
    assert describe(schema, ROOT) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        ("8x", "the string '8x'"),
        ([1, 2], "the list [1, 2]"),
        ({"a": 1}, "the mapping {'a': 1}"),
    ],
)
def test_a_value_in_words(value: Any, words: str) -> None:
    assert value_words(value) == words


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (["save_path"], "[save_path]"),
        (["your model"], "[your model]"),
        ({"bias": None}, "{bias}"),
        (["out"], ""),
        (["save_path", "other_path"], ""),
        ({"bias": 1}, ""),
        ({"a bias": None}, ""),
    ],
)
def test_a_word_in_brackets_for_a_path_is_to_be_filled_in(value: Any, word: str) -> None:
    found = issue({"type": ["string", "null"]}, value, key="model_path")
    assert found.code == ("interpolation" if word else "wrong-type")
    assert word in found.message


def test_a_long_value_is_cut() -> None:
    words = value_words("x" * 1_000)
    assert words.endswith("...") and len(words) < 80


@pytest.mark.parametrize(
    ("pointer", "name"), [((), "the file"), (("a", "b"), "`a.b`"), (("a", 0, "b"), "`a[0].b`"), ((0,), "`[0]`")]
)
def test_the_name_of_a_place(pointer: tuple[str | int, ...], name: str) -> None:
    assert key_of(pointer) == name


ENUMS = {"anyOf": [{"enum": ["a", "b"]}, {"enum": [1, 2]}]}


@pytest.mark.parametrize(
    ("schema", "value", "code", "message"),
    [
        ({"type": "integer"}, "8x", "wrong-type", "`key` wants an integer, got the string '8x'"),
        ({"minimum": 1}, 0, "bad-value", "`key` must be at least 1, got 0"),
        ({"exclusiveMaximum": 0.5}, 1, "bad-value", "`key` must be less than 0.5, got 1"),
        ({"minItems": 2}, [1], "bad-value", "`key` has to have at least 2 items, got the list [1]"),
        ({"maxLength": 1}, "ab", "bad-value", "`key` has to have at most 1 character, got the string 'ab'"),
        ({"required": ["x"]}, {}, "missing-key", "`x` is missing"),
        ({"enum": ["sft"]}, "stf", "bad-value", "`key`: the string 'stf': did you mean `sft`? It takes sft"),
        (ENUMS, 7, "bad-value", "`key` wants one of a, b or one of 1, 2, got 7"),
        (ENUMS, "c", "wrong-type", "`key` wants one of a, b or one of 1, 2, got the string 'c'"),
    ],
)
def test_an_error_becomes_one_message(schema: dict[str, Any], value: Any, code: str, message: str) -> None:
    found = issue(schema, value)
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (["integer"], "2", 2),
        (["boolean"], "True", True),
        (["number"], "1e-5", 1e-5),
        (["integer", "null"], "None", None),
    ],
)
def test_text_that_spells_the_value_has_a_fix(kind: list[str], text: str, value: Any) -> None:
    edit = issue({"type": kind}, text).edit
    assert edit is not None and (edit.action, edit.pointer, edit.value) == ("set", ("key",), value)
    assert type(edit.value) is type(value)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("integer", "1.5"), ("integer", "true"), ("integer", "none"), ("boolean", "1"), ("integer", "٣"), ("array", "1")],
)
def test_text_that_spells_something_else_has_none(kind: str, text: str) -> None:
    assert issue({"type": kind}, text).edit is None


def test_what_another_framework_calls_a_value_is_suggested() -> None:
    found = issue({"enum": ["fa2", "sdpa"]}, "flash_attention_2", {"flash_attention_2": "fa2"})
    assert found.suggestion == "fa2" and "did you mean `fa2`?" in found.message


KNOWN: dict[str, dict[str, Any]] = {
    "cutoff_len": {},
    "quantization_bit": {},
    "cutoff_lan": {"x-memlint-removed-in": "llamafactory 0.9"},
}


@pytest.mark.parametrize(
    ("key", "aliases", "hint", "suggestion"),
    [
        ("cutof_len", {}, ": did you mean `cutoff_len`?", "cutoff_len"),
        ("max_seq", {"max_seq": {"key": "cutoff_len"}}, ": did you mean `cutoff_len`?", "cutoff_len"),
        ("in_4bit", {"in_4bit": {"key": "quantization_bit", "value": 4}}, ": did you mean `quantization_bit: 4`?", ""),
        ("max_seq", {"max_seq": {"key": "of_another_layout"}}, "", ""),
        ("nothing_like_it", {}, "", ""),
    ],
)
def test_an_unknown_key(key: str, aliases: dict[str, Any], hint: str, suggestion: str) -> None:
    """A suggestion is a name that could be written alone; a key that is gone is never one."""
    found = unknown_key(key, KNOWN, aliases, "a.yaml", (key,), "warning")

    assert found.message == f"unknown key `{key}`{hint}"
    assert (found.suggestion, found.severity, found.on_key) == (suggestion, "warning", True)


def test_a_long_key_is_cut() -> None:
    assert len(unknown_key("k" * 500, {}, {}, "a.yaml", ("k",), "error").message) < 120


def test_a_value_that_is_gone_is_neither_listed_nor_suggested() -> None:
    """`stage: grpo` is no slip of `orpo`, which LLaMA-Factory 0.8 dropped."""
    schema = {"enum": ["dpo", "kto", "orpo"], "x-memlint-removed-values": {"orpo": "llamafactory 0.8.0"}}
    assert issue(schema, "grpo").message == "`key` wants one of dpo, kto, got the string 'grpo'"
    assert issue(schema, "kko").message == "`key`: the string 'kko': did you mean `kto`? It takes one of dpo, kto"


@pytest.mark.parametrize(
    ("value", "wants"),
    [
        (0, "an integer of at least 1 or auto, got 0"),
        ("four", "an integer or auto, got the string 'four'"),
        (1.5, "an integer or auto, got 1.5"),
    ],
)
def test_a_number_that_is_too_small_is_told_the_least(value: object, wants: str) -> None:
    found = [one.message for one in schema_issues({"train_batch_size": value}, "ds.json", "deepspeed.json", {})]
    assert [one for one in found if one.endswith(wants)]
