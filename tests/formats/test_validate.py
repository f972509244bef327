"""The compiled check never accepts what jsonschema-rs refuses, and messages say what a person needs."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.schema.quick_check import compile_check
from memlint.formats.schema.suggest import distance, nearest
from memlint.formats.schema.validate import compiled_schema, schema_issues

NAMES = ("llamafactory.json#v0", "llamafactory.json#v1", "deepspeed.json", "axolotl.json")
V0 = "llamafactory.json#v0"

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**40), 2**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["auto", "true", "1e-5", "lora", "sft", "bf16", "cpu", "", "no"]),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
)


def validator(name: str) -> Any:
    compiled = compiled_schema(name)
    return jsonschema_rs.Draft202012Validator({**compiled.schema, "$defs": compiled.root.get("$defs", {})})


VALIDATORS = {name: validator(name) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_what_the_check_accepts_is_valid(name: str, data: st.DataObject) -> None:
    keys = sorted(compiled_schema(name).schema["properties"])
    value = data.draw(st.dictionaries(st.sampled_from(keys), values, max_size=4))
    if compiled_schema(name).accepts(value):
        assert VALIDATORS[name].is_valid(value)


schemas = st.recursive(
    st.one_of(
        st.builds(lambda kind: {"type": kind}, st.sampled_from(["integer", "number", "string", "boolean", "null"])),
        st.builds(lambda items: {"enum": items}, st.lists(scalars, min_size=1, max_size=3)),
        st.builds(lambda low: {"minimum": low}, st.integers(-3, 3)),
        st.builds(lambda high: {"exclusiveMaximum": high}, st.integers(-3, 3)),
        st.just({"minItems": 1}),
        st.just({"pattern": "a"}),
        st.booleans(),
    ),
    lambda inner: st.one_of(
        st.builds(lambda branches: {"anyOf": branches}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda branches: {"allOf": branches}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda item: {"items": item}, inner),
        st.builds(
            lambda known, rest: {"properties": known, "additionalProperties": rest},
            st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
            inner,
        ),
        st.builds(lambda keys: {"required": keys}, st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True)),
    ),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(schema=schemas, value=values)
def test_the_check_is_sound_for_any_schema(schema: Any, value: Any) -> None:
    if compile_check(schema, {})(value):
        assert jsonschema.Draft202012Validator(schema).is_valid(value)


def test_a_keyword_that_is_not_handled_is_never_proven() -> None:
    assert not compile_check({"pattern": "a"}, {})("a")
    assert not compile_check({"$ref": "#/$defs/gone"}, {})("a")


def test_a_schema_that_refers_to_itself_ends() -> None:
    root = {"$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}}}
    check = compile_check({"$ref": "#/$defs/tree"}, root)
    assert check({}) and check({"left": {"left": {}}}) and not check({"left": {"left": 3}})
    assert not compile_check({"anyOf": [{"$ref": "#/$defs/loop"}]}, {"$defs": {"loop": {"$ref": "#/$defs/loop"}}})(1)


def test_a_clean_file_pays_for_no_validator() -> None:
    clean = {"model_name_or_path": "m", "stage": "sft", "do_train": True, "learning_rate": 1e-4, "cutoff_len": 2048}
    code = (
        "import json,sys\nfrom memlint.formats.schema.validate import schema_issues\n"
        f"assert schema_issues(json.loads({json.dumps(json.dumps(clean))}), 'f', '{V0}') == ()\n"
        "assert 'jsonschema_rs' not in sys.modules and 'jsonschema' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ({"lora_rank": "8x"}, "wrong-type", "`lora_rank` wants an integer, got the string '8x'"),
        ({"lora_rank": 0}, "bad-value", "`lora_rank` must be at least 1, got 0"),
        ({"bf16": "yes"}, "bad-value", "`bf16` wants true or false, got the string 'yes'"),
        ({"save_strategy": False}, "bad-value", "did you mean `'no' (with quotes)`?"),
        ({"stage": "stf"}, "bad-value", "did you mean `sft`?"),
        ({"flash_attn": "flash_attention_2"}, "bad-value", "did you mean `fa2`?"),
        ({"quantization_bit": "none"}, "bad-value", "got the string 'none'"),
        ({"model_name_or_path": ["a", "b"]}, "wrong-type", "`model_name_or_path` wants a string or null"),
        ({"cutof_len": 1}, "unknown-key", "unknown key `cutof_len`: did you mean `cutoff_len`?"),
        ({"len_cutoff": 1}, "unknown-key", "did you mean `cutoff_len`?"),
        ({"max_seq_length": 1}, "unknown-key", "did you mean `cutoff_len`?"),
        ({"load_in_4bit": True}, "unknown-key", "did you mean `quantization_bit: 4`?"),
        ({"grpo_use_vllm_at_all": True}, "unknown-key", "unknown key `grpo_use_vllm_at_all`"),
        ({"evaluation_strategy": "no"}, "renamed-key", "use `eval_strategy`"),
        ({"cpu_infer": 3}, "removed-key", "`cpu_infer` is gone since llamafactory 0.9.5"),
        ({"infer_backend": "ktransformers"}, "removed-value", "is gone since llamafactory 0.9.5"),
    ],
)
def test_messages(value: Any, code: str, message: str) -> None:
    found = [issue for issue in schema_issues(value, "train.yaml", V0) if issue.code == code]
    assert len(found) == 1 and message in found[0].message
    assert found[0].pointer == tuple(value)


def test_another_frameworks_name_is_offered_only_where_the_layout_has_the_key() -> None:
    [issue] = schema_issues({"model": "m", "batch_size": 1}, "f", "llamafactory.json#v1")
    assert issue.suggestion != "per_device_train_batch_size"


def test_versions_silence_what_they_still_have() -> None:
    old = {"evaluation_strategy": "no", "cpu_infer": 3}
    assert schema_issues(old, "f", V0, {"transformers": (4, 45), "llamafactory": (0, 9, 4)}) == ()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [None, [], "x", 3, float("nan"), {1: 2}, {None: {}}, {"\ud800": "\udfff"}, 10**50])
def test_nothing_raises(name: str, value: Any) -> None:
    schema_issues(value, "f", name)
    schema_issues({"lora_rank": value, "zero_optimization": value, "model": value, "a": value}, "f", name)


@pytest.mark.parametrize("name", [V0, "trainer.json"])
@pytest.mark.parametrize("value", [True, False, 0.5, 7])
def test_a_key_that_is_renamed_keeps_a_value_that_fits(name: str, value: Any) -> None:
    """A fix gives the old value the new name: `group_by_length: true` is no `train_sampling_strategy: true`."""
    compiled = compiled_schema(name)
    properties = compiled.schema["properties"]
    renamed = {key: schema for key, schema in properties.items() if "x-memlint-renamed-to" in schema}
    for key, schema in renamed.items():
        new = schema["x-memlint-renamed-to"]
        if not schema.get("x-memlint-other-value") and new in properties and schema.get("type", schema.get("$ref")):
            fits = compile_check(properties[new], compiled.root)
            assert fits(value) or not compile_check(schema, compiled.root)(value), key


def test_a_key_whose_new_name_wants_another_value_has_no_word_to_write_instead() -> None:
    (issue,) = schema_issues({"fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer"}, "f", V0)

    assert (issue.code, issue.suggestion) == ("renamed-key", "")


def test_a_tree_that_is_shared_many_times_is_cut_off() -> None:
    node: Any = []
    for _ in range(64):
        node = [node, node]
    assert schema_issues({"nothing_known": node}, "f", V0)


def test_many_errors_are_limited() -> None:
    assert len(schema_issues({f"zzz{number}": 1 for number in range(500)}, "f", V0)) == 50


@given(st.text("abc_", max_size=8), st.text("abc_", max_size=8))
def test_the_distance_is_symmetric_and_zero_for_equal_words(left: str, right: str) -> None:
    assert distance(left, right, 99) == distance(right, left, 99)
    assert (distance(left, right, 99) == 0) == (left == right)


def test_suggestions_have_a_limit() -> None:
    assert nearest("lora_rnak", ["lora_rank", "lora_alpha"]) == "lora_rank"
    assert nearest("completely_else", ["lora_rank"]) == ""
    assert nearest("x" * 10_000, ["lora_rank"]) == ""


def test_the_schema_itself_is_valid() -> None:
    for name in NAMES:
        jsonschema.Draft202012Validator.check_schema(dict(compiled_schema(name).root))
