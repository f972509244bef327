"""A planned run is the run that its file says, in what the frameworks make of a change beside the change."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from memlint.fixes.plan_options import options
from memlint.fixes.written_plans import WrittenPlan, edit_writer
from memlint.ruleset.engine import Engine
from tests.comparisons.random_plans import Case, answered, read_otherwise

AXOLOTL = {
    "base_model": "meta-llama/Meta-Llama-3-8B",
    "datasets": [{"path": "d", "type": "alpaca"}],
    "output_dir": "out",
    "sequence_len": 2048,
    "micro_batch_size": 1,
    "gradient_accumulation_steps": 4,
    "num_epochs": 1,
    "optimizer": "adamw_torch",
    "learning_rate": 2e-5,
    "bf16": True,
    "gradient_checkpointing": True,
}
LLAMA_FACTORY = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "stage": "sft",
    "do_train": True,
    "finetuning_type": "full",
    "dataset": "d",
    "template": "llama3",
    "cutoff_len": 2048,
    "output_dir": "out",
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "learning_rate": 1e-5,
}
SWIFT = {
    "rlhf_type": "dpo",
    "model": "Qwen/Qwen2.5-7B-Instruct",
    "tuner_type": "full",
    "lora_dropout": 0.1,
    "dataset": "d",
    "max_length": 2048,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "learning_rate": 1e-5,
    "torch_dtype": "bfloat16",
}
TRL = {
    "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "dataset_name": "d",
    "output_dir": "out",
    "max_length": 4096,
    "beta": 0.1,
    "max_prompt_length": 512,
    "per_device_train_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "gradient_checkpointing": True,
    "learning_rate": 5e-7,
    "bf16": True,
}
OLDER_TRL = {key: value for key, value in TRL.items() if key not in ("beta", "max_length", "max_prompt_length")}
OLDER_TRL |= {
    "max_seq_length": 2048,
    "torch_dtype": "bfloat16",
    "dataset_num_proc": 12,
    "do_eval": True,
    "log_level": "info",
}
FIREFLY = {
    "model_name_or_path": "internlm/internlm-7b",
    "output_dir": "out",
    "train_file": "d.jsonl",
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "max_seq_length": 1024,
    "lora_rank": 64,
    "learning_rate": 2e-4,
    "gradient_checkpointing": True,
    "optim": "paged_adamw_32bit",
    "fp16": True,
}
ON_LORA = {"adapter": "lora", "lora_r": 32, "lora_alpha": 64, "lora_target_linear": True}
CASES: dict[str, tuple[dict[str, Any], str, int]] = {
    "targets, dropout and kernels of new adapters": (AXOLOTL | {"lora_dropout": 0.05}, "RTX4090", 1),
    "options of adapters that are not there yet": (
        AXOLOTL | {"peft_use_dora": True, "lora_modules_to_save": ["embed_tokens"], "lora_qkv_kernel": False},
        "L40S",
        1,
    ),
    "4 bits in place of 8": (
        AXOLOTL | ON_LORA | {"base_model": "codellama/CodeLlama-34b-hf", "load_in_8bit": True},
        "RTX4090",
        4,
    ),
    "checkpoints in host memory": (AXOLOTL | ON_LORA | {"sequence_len": 65536}, "RTX4090", 1),
    "a DeepSpeed section": (AXOLOTL | {"attn_implementation": "sdpa"}, "A100-40GB", 4),
    "tiled MLPs": (AXOLOTL | {"sequence_len": 131072, "tiled_mlp": True}, "A100-80GB", 1),
    "blocks of LLaMA Pro": (
        LLAMA_FACTORY
        | {"finetuning_type": "freeze", "freeze_trainable_layers": 8, "use_llama_pro": True, "bf16": True}
        | {"freeze_trainable_modules": "all", "lora_dropout": 0.1},
        "RTX4090",
        1,
    ),
    "weights alone in half precision": (LLAMA_FACTORY | {"finetuning_type": "lora"}, "RTX A4000", 4),
    "checkpointing that was off": (
        LLAMA_FACTORY | {"disable_gradient_checkpointing": True, "bf16": True},
        "A100-80GB",
        4,
    ),
    "4-bit weights in float16": (LLAMA_FACTORY | {"fp16": True}, "RTX4090", 1),
    "a word for a DeepSpeed file": (SWIFT, "A100-40GB", 4),
    "adapters of ms-swift": (SWIFT, "RTX4090", 1),
    "adapters of TRL": (TRL, "RTX4090", 1),
    "the dtype that 4-bit weights are stored in": (OLDER_TRL, "RTX4090", 1),
    "adapters of TRL under ZeRO-3": (TRL | {"use_peft": True, "lora_target_modules": "all-linear"}, "RTX A4000", 4),
    "a prepared model under ZeRO-2": (FIREFLY, "RTX4090", 4),
}


@pytest.mark.parametrize("name", CASES)
def test_the_file_of_a_plan_is_the_planned_run(name: str) -> None:
    found = _options(*CASES[name])
    assert found
    for one in found:
        assert read_otherwise(one) == (), [step.title for step in one.plan.steps]


def _options(config: dict[str, Any], card: str, gpus: int) -> tuple[WrittenPlan, ...]:
    case = Case(0, card, "", "", {"train.yaml": yaml.safe_dump(config, sort_keys=False)}, {}, gpus)
    analysis, analyser = answered(case)
    again = analyser.reanalysis(analysis, analyser.workspaces.of("train.yaml"))
    return options(analysis, 0, Engine(()).estimator, again).options


def test_a_new_section_of_deepspeed_comes_with_the_half_precision_of_the_weights() -> None:
    """DeepSpeed's `auto` follows `bf16`, not the dtype of the weights: they would be made float32."""
    texts = [one.tried.contents["train.yaml"].decode() for one in _options(*CASES["weights alone in half precision"])]
    sharded = [yaml.safe_load(text) for text in texts if "deepspeed:" in text]
    assert sharded and all(config["bf16"] is True for config in sharded)


def test_a_word_for_a_file_of_deepspeed_says_no_buckets() -> None:
    case = Case(0, "A100-40GB", "", "", {"train.yaml": yaml.safe_dump(SWIFT | {"deepspeed": "zero2"})}, {}, 4)
    analysis, _ = answered(case)
    write = edit_writer(analysis)
    third = {"parallelism.zero.stage": 3, "parallelism.zero.gather_16bit_weights_on_model_save": True}
    assert write(analysis.runs[0], third)
    assert write(analysis.runs[0], third | {"parallelism.zero.reduce_bucket_size": 50_000_000}) is None
