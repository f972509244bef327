"""What it accepts, jsonschema-rs accepts; and of published keys it is sure."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.formats.schema.surely_valid import _ACCEPTED, surely_valid
from memlint.formats.schema.validate import compiled_schema

SCHEMAS = ("llamafactory.json#v0", "axolotl.json", "deepspeed.json", "accelerate.json", "trainer.json", "swift.json")
NUMBERS = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -0.0, 2**53, 2**64, 10**400, float("inf"), float("nan")])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.sampled_from(["", "a", "auto", "\ud800", "é", b"x", (1,)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", 1, "\udfff"]), inner),
    max_leaves=6,
)
JSON = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, "a", "auto", [], {}, [1], {"a": 1}])
TYPES = st.sampled_from(["null", "boolean", "string", "integer", "number", "array", "object"])
WORDS: dict[str, st.SearchStrategy[Any]] = {
    "type": TYPES | st.lists(TYPES, min_size=1, unique=True),
    "enum": st.lists(JSON, min_size=1, max_size=4),
    "const": JSON,
    "$ref": st.sampled_from(["#/$defs/number", "#/$defs/text"]),
    "required": st.lists(st.sampled_from(["a", "b"]), unique=True),
    "pattern": st.just("^a"),
    "x-memlint-note": st.just("a note"),
    "description": st.just("a description"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-2, 2)),
    **dict.fromkeys(("minItems", "maxItems", "minLength"), st.integers(0, 2)),
}
ROOT = {"$defs": {"number": {"type": "number", "minimum": 1}, "text": {"enum": ["a", "auto"]}}}


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b"]), inner, min_size=1)
    more = {"properties": named, "patternProperties": named, "additionalProperties": inner, "items": inner}
    listed = st.lists(inner, min_size=1, max_size=3)
    words = {**WORDS, **more, "anyOf": listed, "allOf": listed, "oneOf": listed, "not": inner}
    return st.fixed_dictionaries({}, optional=words)


ANY_SCHEMA = st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=WORDS), schemas, max_leaves=8)


@given(ANY_SCHEMA, VALUES)
def test_what_it_accepts_is_valid(schema: Any, value: Any) -> None:
    if surely_valid(ROOT, schema, value):
        whole = {**ROOT, "allOf": [schema]}
        assert jsonschema_rs.Draft202012Validator(whole).is_valid(value)


@given(ANY_SCHEMA, st.lists(VALUES, max_size=4))
def test_what_it_accepted_before_changes_no_answer(schema: Any, values: list[Any]) -> None:
    known = [surely_valid(ROOT, schema, value) for value in (*values, *values)]
    fresh = []
    for value in (*values, *values):
        _ACCEPTED.clear()
        fresh.append(surely_valid(ROOT, schema, value))
    assert known == fresh


@given(st.sampled_from(SCHEMAS), st.data())
def test_what_it_accepts_of_a_shipped_schema_is_valid(name: str, data: st.DataObject) -> None:
    root, schema = compiled_schema(name)
    keys = st.sampled_from(sorted(schema.get("properties", {"a": 1})))
    value = data.draw(st.dictionaries(keys, VALUES, max_size=4))
    if surely_valid(root, schema, value):
        whole = {**schema, "$defs": root.get("$defs", {})}
        assert jsonschema_rs.Draft202012Validator(whole).is_valid(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (
            "llamafactory.json#v0",
            {
                "model_name_or_path": "Qwen/Qwen3-8B",
                "stage": "sft",
                "do_train": True,
                "finetuning_type": "lora",
                "lora_rank": 8,
                "lora_target": "all",
                "quantization_bit": 4,
                "cutoff_len": 2048,
                "packing": False,
                "learning_rate": 1.0e-4,
                "warmup_ratio": 0.1,
                "bf16": True,
                "report_to": "none",
                "val_size": 0.1,
            },
        ),
        (
            "axolotl.json",
            {
                "base_model": "Qwen/Qwen3-8B",
                "learning_rate": 0.0002,
                "adapter": "qlora",
                "load_in_4bit": True,
                "lora_r": 16,
                "datasets": [{"path": "a/b", "type": "alpaca"}],
                "sample_packing": True,
                "micro_batch_size": 2,
                "gradient_checkpointing": True,
                "optimizer": "adamw_bnb_8bit",
                "special_tokens": {"pad_token": "a"},
            },
        ),
        ("deepspeed.json", {"zero_optimization": {"stage": 2}, "train_batch_size": "auto", "bf16": {"enabled": True}}),
    ],
)
def test_it_is_sure_of_usual_configs(name: str, value: Any) -> None:
    root, schema = compiled_schema(name)
    assert surely_valid(root, schema, value)
