"""What is accepted at sight is what jsonschema-rs accepts."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.schema.known_keys import KnownKeys
from memlint.formats.schema.refs import CompiledSchema, Schema
from memlint.formats.schema.validate import compiled_schema, is_valid

NAMES = (
    *("llamafactory.json#v0", "llamafactory.json#v1", "trainer.json", "axolotl.json", "deepspeed.json"),
    *("accelerate.json", "swift.json", "openrlhf.json", "verl.json#ppo", "verl.json#sft"),
)
WORDS = ("true", "no", "auto", "sft", "bf16", "1e-4", "x", "\n", "\ud800", "模型")
NUMBERS = (0, 1, -1, 2, 8, 64, 2**63, 10**30, 0.0, 1.0, 0.5, -0.5, 1e-30, float("inf"), float("nan"))
SCALARS = st.sampled_from([None, True, False, *WORDS, *NUMBERS])
VALUES = st.one_of(
    SCALARS, SCALARS, SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(SCALARS, SCALARS, max_size=2)
)


def at_sight(name: str, value: Any) -> bool:
    return KnownKeys(compiled_schema(name)).accept(value)


def is_accepted(schema: Schema, value: Any) -> bool:
    return KnownKeys(CompiledSchema(schema, schema)).accept(value)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_nothing_is_accepted_that_jsonschema_refuses(name: str, data: st.DataObject) -> None:
    keys = st.sampled_from([*sorted(compiled_schema(name).schema["properties"]), "no_such_key"])
    value = data.draw(st.dictionaries(keys, VALUES, max_size=3))

    assert is_valid(name, value) or not at_sight(name, value)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_accepted_that_jsonschema_refuses_key_by_key(name: str) -> None:
    scalars = [None, True, False, *WORDS, *NUMBERS]
    pairs = [(key, value) for key in compiled_schema(name).schema["properties"] for value in scalars]

    assert [pair for pair in pairs if at_sight(name, dict([pair])) and not is_valid(name, dict([pair]))] == []


@pytest.mark.parametrize("value", [None, [], "x", 1, {1: 2}, {"lora_rank": [8]}, {"no_such_key": 1}, {"lora_rank": 0}])
def test_other_values_are_left_to_jsonschema(value: Any) -> None:
    assert not at_sight("llamafactory.json#v0", value)


def test_keywords_that_are_not_known_are_left_to_jsonschema() -> None:
    assert not is_accepted({"type": "object", "required": ["a"]}, {})
    assert not is_accepted({"type": "object", "properties": {"a": {"pattern": "x"}}}, {"a": "x"})
    assert not is_accepted({"type": "object", "properties": {"a": {"multipleOf": 2}}}, {"a": 2})
    assert is_accepted({"type": "object", "properties": {"a": {"description": "x"}}}, {"a": 2})


def test_a_plain_config_is_checked_without_jsonschema() -> None:
    value = {"model_name_or_path": "m", "stage": "sft", "lora_rank": 8, "adam_beta1": 0.9, "bf16": True, "dataset": "x"}
    program = (
        "import sys; from memlint.formats.schema.validate import schema_issues; "
        f"sys.exit(bool(schema_issues({value!r}, 'a.yaml', 'llamafactory.json#v0')) or 'jsonschema_rs' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
