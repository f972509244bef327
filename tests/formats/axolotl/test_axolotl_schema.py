"""What schemas/axolotl.json takes, refuses and remarks on: as Axolotl 0.19.0, which validates with pydantic."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.base import Issue
from memlint.formats.schema.validate import compiled_schema, schema_issues

NEEDED = {"base_model": "org/model", "learning_rate": 1e-5}


def issues(value: dict[str, Any], **versions: tuple[int, ...]) -> tuple[Issue, ...]:
    return schema_issues({**NEEDED, **value}, "run.yaml", "axolotl.json", versions)


def found(value: dict[str, Any], **versions: tuple[int, ...]) -> list[tuple[str, str]]:
    return [(issue.code, issue.severity) for issue in issues(value, **versions)]


# pydantic's lax mode (docs.pydantic.dev, conversion table), and what Axolotl's validators rewrite before it.
@pytest.mark.parametrize(
    "value",
    [
        {"learning_rate": "2e-4"},  # what PyYAML makes of 2e-4
        {"sample_packing": "Yes", "tf32": 1, "flash_attention": "on"},
        {"sequence_len": "4096", "lora_r": "1_6", "micro_batch_size": 2.0, "num_epochs": 3},
        {"bf16": "auto", "gradient_checkpointing": "offload", "torch_compile": "auto"},
        {"lora_target_modules": "all-linear", "lora_modules_to_save": None},
        {"lora_target_modules": ["q_proj"], "deepspeed": {"zero_optimization": {"stage": 2}}},
        {"model_config": {"rope_theta": 1e6}, "overrides_of_model_config": None, "type_of_model": "AutoModel"},
        {"fsdp_config": {"fsdp_offload_params": True, "reshard_after_forward": "true", "version": 2}},
        {"datasets": [{"path": "a", "type": {"field_output": "b"}, "data_files": "c.json"}]},
        {"datasets": [{"path": "a", "type": "alpaca", "data_files": ["c.json"], "split": None}]},
        {"pretraining_dataset": [{"path": "a", "text_column": "text", "type": "pretrain"}]},
        {"chat_template": "tokenizer_default_fallback_chatml", "rl": "grpo", "trl": {"scale_rewards": "group"}},
        {"attn_implementation": "kernels-community/flash-attn3"},
        {"optimizer": "muon", "lr_scheduler": "rex", "eval_strategy": "no"},
        {"qat": {"weight_dtype": "fp8", "group_size": None}, "selective_checkpointing": True},
        {"selective_checkpointing": {"save": ["attention"]}, "max_memory": {0: "20GiB", "cpu": "99GiB"}},
        {"plugins": ["axolotl.integrations.liger.LigerPlugin"], "liger_rope": True, "cut_cross_entropy": None},
    ],
)
def test_taken(value: dict[str, Any]) -> None:
    assert issues(value) == ()


@pytest.mark.parametrize(
    ("value", "codes", "text"),
    [
        ({"sequence_len": "long"}, [("wrong-type", "error")], "`sequence_len` wants an integer, got the string 'long'"),
        ({"sequence_len": None}, [("wrong-type", "error")], "an integer, got null"),
        ({"sequence_len": 0}, [("bad-value", "error")], "at least 1"),
        ({"warmup_steps": 0.1}, [("wrong-type", "error")], "an integer or null, got 0.1"),
        ({"lora_dropout": 5}, [("bad-value", "error")], "at most 1"),
        ({"wandb_name": 7}, [("wrong-type", "error")], "a string or null"),
        ({"eval_strategy": False}, [("bad-value", "error")], "one of no, steps, epoch"),  # an unquoted no
        ({"optimizer": "adamw_bnb_8bits"}, [("bad-value", "error")], "did you mean `adamw_bnb_8bit`?"),
        ({"optimizer": "adamw"}, [("bad-value", "error")], "did you mean `adamw_torch`?"),
        ({"rl": "gpro"}, [("bad-value", "error")], "did you mean `grpo`?"),
        ({"fsdp": "full_shard auto_wrap"}, [("wrong-type", "error")], "a list or null"),
        ({"datasets": []}, [("bad-value", "error")], "at least 1 item"),
        ({"datasets": [{"path": 3}]}, [("wrong-type", "error")], "`datasets[0].path`"),
        ({"trl": {"use_vllm": "maybe"}}, [("wrong-type", "error")], "`trl.use_vllm` wants true or false"),
        ({"fp8_config": {"recipes": "rowwise"}}, [("unknown-key", "error")], "did you mean `recipe`?"),
        ({"lr_groups": [{"name": "a", "lr": 1}]}, [("missing-key", "error")], "`modules` is missing"),
        ({"torch_compile_options": {"shape_paddin": True}}, [("unknown-key", "error")], "`shape_padding`"),
        # what no model lists is dropped without a word
        ({"sample_paking": True}, [("unknown-key", "warning")], "did you mean `sample_packing`?"),
        ({"max_seq_length": 1}, [("unknown-key", "warning")], "did you mean `sequence_len`?"),
        ({"use_flash_attention_2": True}, [("unknown-key", "warning")], "`attn_implementation: flash_attention_2`"),
        ({"trl": {"num_generation": 8}}, [("unknown-key", "warning")], "did you mean `num_generations`?"),
        ({"datasets": [{"typ": "alpaca"}]}, [("unknown-key", "warning")], "did you mean `type`?"),
        ({"fsdp_config": {"sharding_strategy": "FULL_SHARD"}}, [("removed-key", "warning")], "axolotl 0.13.0"),
        ({"relora_steps": 9}, [("renamed-key", "warning")], "axolotl 0.12.0: use `jagged_restart_steps`"),
        ({"dpo_beta": 0.1}, [("renamed-key", "warning")], "use `rl_beta`"),
        ({"rope_scaling": {}}, [("removed-key", "warning")], "axolotl 0.5.0"),
        ({"unsloth_rope": True}, [("removed-key", "warning")], "axolotl 0.17.0"),
        ({"gradient_checkpointing": "unsloth"}, [("removed-value", "warning")], "axolotl 0.9.2"),
        ({"chat_template": "inst"}, [("removed-value", "warning")], "axolotl 0.5.0: use `mistral_v1`"),
        ({"rl": "kto_pair"}, [("removed-value", "warning")], "axolotl 0.5.0: use `kto`"),
        ({"optimizer": "ao_adamw_8bit"}, [("removed-value", "warning")], "use `adamw_torch_8bit`"),
        ({"datasets": [{"path": "a", "type": "sharegpt"}]}, [("removed-value", "warning")], "use `chat_template`"),
    ],
)
def test_remarks(value: dict[str, Any], codes: list[tuple[str, str]], text: str) -> None:
    assert found(value) == codes
    assert text in issues(value)[0].message


def test_messages_do_not_offer_what_is_gone() -> None:
    assert "kto_pair" not in issues({"rl": "x"})[0].message
    assert "unsloth" not in issues({"gradient_checkpointing": 4})[0].message


def test_the_release_in_use_counts() -> None:
    value = {"unsloth_rope": True, "relora_steps": 9, "optimizer": "ao_adamw_8bit"}
    assert len(found(value, axolotl=(0, 19, 0))) == 3
    assert found(value, axolotl=(0, 11, 0)) == []


def test_a_model_and_a_learning_rate_are_needed() -> None:
    assert [issue.message for issue in schema_issues({}, "run.yaml", "axolotl.json")] == [
        "`base_model` is missing",
        "`learning_rate` is missing",
    ]


# config.py, peft.py, training.py and the plugins' args.py of 0.19.0
@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("sequence_len", 512),
        ("micro_batch_size", 1),
        ("gradient_accumulation_steps", 1),
        ("optimizer", "adamw_torch_fused"),
        ("bf16", "auto"),
        ("tf32", "auto"),
        ("gradient_checkpointing", False),
        ("activation_offloading", False),
        ("lora_dropout", 0.0),
        ("val_set_size", 0.0),
        ("cut_cross_entropy", True),
    ],
)
def test_defaults(key: str, default: object) -> None:
    assert compiled_schema("axolotl.json").root["properties"][key]["default"] == default


def test_keys_of_plugins_name_the_plugin() -> None:
    keys = compiled_schema("axolotl.json").root["properties"]
    assert keys["liger_rope"]["x-memlint-plugin"] == "axolotl.integrations.liger.LigerPlugin"
    assert keys["cut_cross_entropy"]["x-memlint-plugin"].endswith(".CutCrossEntropyPlugin")
    assert "x-memlint-plugin" not in keys["sequence_len"]


def test_old_names_that_still_work_are_no_remark() -> None:
    value = {"flash_attention": True, "fsdp": ["full_shard"], "gc_steps": 4}
    keys = compiled_schema("axolotl.json").root["properties"]
    assert issues(value) == ()
    assert [keys[key]["deprecated"] for key in value] == [True, True, True]


def test_a_learning_rate_may_be_text() -> None:
    assert found({"learning_rate": "2e-5", "trl": {"beta": 0.1}, "datasets": [{"path": "a"}]}) == []
    assert found({"learning_rate": "fast"}) == [("wrong-type", "error")]
