"""Any value gets an answer, and messages say what a person needs."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from memlint.formats.schema.validate import compiled_schema, is_valid, schema_issues
from memlint.formats.schema.violations import MAX_NODES
from memlint.formats.trainer.recognise import SCHEMA
from memlint.source.tree import MAX_DEPTH

NAMES = ("llamafactory.json#v0", "llamafactory.json#v1", "deepspeed.json", "axolotl.json")
V0 = "llamafactory.json#v0"


@pytest.mark.parametrize(
    "value", [{1: 2}, {"lora_rank": float("nan")}, {"lora_rank": 2**100}, {"a\ud800": 1}, {None: 0}]
)
def test_what_json_cannot_hold_is_judged_all_the_same(value: Any) -> None:
    assert all(issue.code in ("unknown-key", "wrong-type", "bad-value") for issue in schema_issues(value, "f", V0))


def test_a_long_valid_value_has_no_issue() -> None:
    names = ",".join(f"layers.{number}" for number in range(50))

    assert schema_issues({"lora_target": names, "report_to": ["none"] * (MAX_NODES + 1)}, "f", V0) == ()


def test_the_deepest_value_that_is_read_gets_an_answer() -> None:
    deep: Any = 1
    for _ in range(MAX_DEPTH):
        deep = [deep]

    assert schema_issues({"report_to": deep}, "f", V0)


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
        ({"cpu_infer": 3}, "removed-key", "`cpu_infer` is gone since llamafactory 0.9.5: leave it out"),
        ({"infer_backend": "ktransformers"}, "removed-value", "is gone since llamafactory 0.9.5"),
    ],
)
def test_a_violation_has_one_issue_at_its_value(value: Any, code: str, message: str) -> None:
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
def test_no_value_makes_validation_raise(name: str, value: Any) -> None:
    schema_issues(value, "f", name)
    schema_issues({"lora_rank": value, "zero_optimization": value, "model": value, "a": value}, "f", name)


@pytest.mark.parametrize("name", [V0, "trainer.json"])
@pytest.mark.parametrize("value", [True, False, 0.5, 7])
def test_a_key_that_is_renamed_keeps_a_value_that_fits(name: str, value: Any) -> None:
    """A fix gives the old value the new name: `group_by_length: true` is no `train_sampling_strategy: true`."""
    compiled = compiled_schema(name)
    properties = compiled.schema["properties"]
    renamed = {key: schema for key, schema in properties.items() if "x-memlint-renamed-to" in schema}
    assert renamed
    for key, schema in renamed.items():
        new = schema["x-memlint-renamed-to"]
        if not schema.get("x-memlint-other-value") and new in properties and schema.get("type", schema.get("$ref")):
            assert is_valid(name, {new: value}) or not is_valid(name, {key: value}), key


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


def test_the_schema_itself_is_valid() -> None:
    for name in NAMES:
        jsonschema.Draft202012Validator.check_schema(dict(compiled_schema(name).root))


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("output_dir", ["save_path"], "interpolation"),
        ("output_dir", ["PATH to save"], "interpolation"),
        ("run_name", {"name": None}, "interpolation"),
        ("output_dir", ["the", "output", "path"], "interpolation"),
        ("output_dir", ["my", "output"], "wrong-type"),
        ("output_dir", ["out"], "wrong-type"),
        ("run_name", ["my run"], "wrong-type"),
        ("run_name", {"name": "a"}, "wrong-type"),
    ],
)
def test_a_name_to_be_filled_in_is_no_wrong_type(key: str, value: Any, code: str) -> None:
    """YAML reads `output_dir: [save_path]` as a list, and `run_name: {name}` as a mapping."""
    found = schema_issues({"model_name_or_path": "gpt2", key: value}, "a.yaml", SCHEMA)
    assert [one.code for one in found] == [code]
