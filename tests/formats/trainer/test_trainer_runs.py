"""Trainer and TRL files: recognition, what each key means (sources in the tables), slips, references, edits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import from_config
from memlint.architectures.model import Resolution, StoredWeights
from memlint.architectures.model import parameters as run_parameters
from memlint.formats import recognise
from memlint.formats.base import RepositoryFacts
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer import format as trainer
from memlint.memory import estimate
from memlint.run import UNKNOWN, get
from tests.formats.frameworks import ANYTHING, LLAMA, applied, codes, context, document, run_of
from tests.memory.runs import TINY

PLAIN = {
    "model_name_or_path": "some/model",
    "output_dir": "out",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 8,
    "learning_rate": 1e-4,
    "num_train_epochs": 1,
    "bf16": True,
}
TRL = {**PLAIN, "dataset_num_proc": 4}
DPO = {**TRL, "output_dir": "data/model-dpo-full", "beta": 0.1, "max_prompt_length": 512}
HALF_UNSAID = {key: value for key, value in TRL.items() if key != "bf16"}
LORA = {**TRL, "use_peft": True}
QLORA = {**LORA, "load_in_4bit": True, "torch_dtype": "bfloat16"}


def parsed_of(value: Any, **fields: Any) -> Any:
    return trainer.parse(document(value), context(**fields))


@pytest.mark.parametrize(
    ("value", "claimed"),
    [
        (PLAIN, "trainer"),
        (DPO, "trainer"),
        (
            {"stage": "sft", "finetuning_type": "lora", "do_train": True, **PLAIN, "cutoff_len": 1024, "template": "x"},
            "llamafactory",
        ),
        (
            {
                "base_model": "m",
                "micro_batch_size": 2,
                "adapter": "lora",
                "learning_rate": 1,
                "output_dir": "o",
                "bf16": True,
            },
            "axolotl",
        ),
        ({"model": "m", "tuner_type": "lora", "split_dataset_ratio": 0.1, **PLAIN, "model_name_or_path": None}, ""),
        ({"model": "m", "train_type": "lora", "dataset": ["d.jsonl"], **PLAIN, "model_name_or_path": None}, ""),
        ({"training": PLAIN, "lora": {"r": 8}}, ""),
        ({"learning_rate": 1e-4, "gradient_accumulation_steps": 2}, ""),
        # TRL's quickstart of GRPO sets little else than where to write
        (
            {
                "model_name_or_path": "m",
                "reward_funcs": ["accuracy_reward"],
                "num_generations": 8,
                "per_device_train_batch_size": 8,
                "output_dir": "o",
            },
            "trainer",
        ),
        ({"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 2}, "deepspeed"),
        # Hydra's: composed, interpolated, and handed to what `_target_` names
        ({"_target_": "trl.SFTConfig", **PLAIN}, ""),
        ({"defaults": [{"training_arguments": "dpo"}, "_self_"], **PLAIN}, ""),
        ({"hydra": {"run": {"dir": "out"}}, **PLAIN}, ""),
        ([PLAIN], ""),
        ("just text", ""),
    ],
)
def test_recognised_by_keys(value: Any, claimed: str) -> None:
    found = recognise(document(value, "file.json"))
    assert (found[0].NAME if found else "") == claimed


# Newest releases: transformers 5.23, trl 1.16, peft 0.21.
@pytest.mark.parametrize(
    ("training", "fields"),
    [
        (PLAIN, {"method.kind": "full", "method.stage": "sft", "loss.kind": "plain", "sequence.length": UNKNOWN}),
        (PLAIN, {"model.weights_dtype": "bfloat16", "checkpointing.mode": "none", "stack.framework": "trainer"}),
        (
            TRL,
            {
                "model.weights_dtype": "float32",
                "sequence.length": 1024,
                "loss.kind": "fused_head",
                "loss.chunk_tokens": 4096,
            },
        ),
        (TRL, {"checkpointing.mode": "full", "checkpointing.reentrant": False, "stack.framework": "trl"}),
        ({**TRL, "gradient_checkpointing": False}, {"checkpointing.mode": "none"}),
        ({**TRL, "bf16": None}, {"precision.compute": "bfloat16", "precision.autocast": True}),
        ({**TRL, "bf16": None, "fp16": True}, {"precision.compute": "float16"}),
        (
            {**PLAIN, "torch_dtype": "float16"},
            {"model.weights_dtype": "float16", "precision.trainable_dtype": "float16"},
        ),
        ({**PLAIN, "use_liger_kernel": True}, {"loss.kind": "liger", "loss.liger_kernels": True}),
        ({**TRL, "use_liger_kernel": True}, {"loss.kind": "fused_head", "loss.liger_kernels": True}),
        (LORA, {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("q_proj", "v_proj")}),
        ({**LORA, "lora_target_modules": ["o_proj"]}, {"method.targets": ("o_proj",)}),
        ({**LORA, "lora_target_modules": "all-linear"}, {"method.targets": ("all-linear",)}),
        ({**LORA, "lora_target_modules": ".*no_such"}, {"method.targets": UNKNOWN}),
        ({**LORA, "use_peft": False, "lora_r": 8}, {"method.kind": "full"}),
        ({**LORA, "torch_dtype": "bfloat16"}, {"method.adapter_dtype": "float32"}),
        (QLORA, {"method.adapter_dtype": "bfloat16", "model.quantization.bits": 4, "model.quantization.kind": "nf4"}),
        (
            QLORA,
            {"model.quantization.double_quant": False, "model.quantization.upcast_rest_to_fp32": False},
        ),  # trl 0.26
        ({**LORA, "load_in_4bit": True, "dtype": "bfloat16"}, {"model.quantization.upcast_rest_to_fp32": False}),
        ({**QLORA, "use_bnb_nested_quant": True}, {"model.quantization.double_quant": True}),
        ({**LORA, "load_in_8bit": True}, {"model.quantization.bits": 8, "model.quantization.kind": "int8"}),
        ({**PLAIN, "lora_rank": 64}, {"method.kind": "lora", "method.rank": 64, "method.targets": ("all-linear",)}),
        ({**PLAIN, "train_mode": "qlora", "lora_rank": 8}, {"model.quantization.bits": 4, "method.kind": "lora"}),
        (
            {**PLAIN, "lora_rank": 64, "train_file": "d.jsonl", "max_seq_length": 1024},  # Firefly's train_qlora.py
            {"model.quantization.bits": 4, "model.quantization.double_quant": True, "model.weights_dtype": "float16"},
        ),
        (
            {**PLAIN, "lora_rank": 64, "train_file": "d.jsonl", "max_seq_length": 1024, "train_mode": "lora"},
            {"model.weights_dtype": "bfloat16", "method.kind": "lora"},
        ),
        ({**PLAIN, "max_seq_length": 2048}, {"sequence.length": 2048}),
        ({**TRL, "max_length": None}, {"sequence.length": UNKNOWN}),
        (
            {**TRL, "packing": True},
            {"sequence.packing": True, "sequence.neat_packing": True, "sequence.length_is_bound": False},
        ),
        ({**TRL, "packing": True, "packing_strategy": "wrapped"}, {"sequence.neat_packing": False}),
        (DPO, {"method.stage": "dpo", "method.reference_model": "copy", "sequence.max_prompt_length": 512}),
        ({**DPO, "use_peft": True}, {"method.reference_model": "shared"}),
        (
            {**DPO, "output_dir": "data/zephyr-orpo-141b"},
            {"method.stage": "orpo", "method.reference_model": "none", "loss.kind": "plain"},
        ),
        ({**DPO, "output_dir": "out"}, {"method.stage": "dpo", "method.reference_model": "none"}),
        ({**DPO, "output_dir": "x-dpo", "hub_model_id": "x-orpo"}, {"method.reference_model": "none"}),
        ({**DPO, "output_dir": "out", "dataset_name": "pairs-dpo"}, {"method.reference_model": "none"}),
        ({**DPO, "precompute_ref_log_probs": True}, {"method.reference_model": "precomputed"}),
        (
            {**DPO, "loss_type": "simpo"},
            {"method.stage": "simpo", "method.reference_model": "none", "loss.preference": "simpo"},
        ),
        ({**DPO, "desirable_weight": 1.0}, {"method.stage": "kto", "method.reference_model": "copy"}),
        (
            {**TRL, "num_generations": 8, "max_prompt_length": 512, "max_completion_length": 1024},
            {"method.stage": "grpo", "sequence.length": 1536},
        ),
        ({**TRL, "max_completion_length": 1024}, {"method.stage": "grpo"}),
        (
            {**DPO, "max_length": 2048, "max_completion_length": 1024, "output_dir": "llama-orpo"},
            {"method.stage": "orpo", "sequence.length": 2048},
        ),
        ({**PLAIN, "use_cpu": True}, {"stack.unmodelled": "training on the CPU"}),
        ({**PLAIN, "no_cuda": True}, {"stack.unmodelled": "training on the CPU"}),
        ({**TRL, "num_generations": 8}, {"sequence.length": UNKNOWN, "method.reference_model": "none"}),
        ({**TRL, "num_generations": 8, "beta": 0.04}, {"method.reference_model": "copy"}),
        (
            {**PLAIN, "attn_implementation": "kernels-community/flash-attn2"},
            {"attention.implementation": "flash_attention_2"},
        ),
        ({**PLAIN, "use_flash_attention_2": True}, {"attention.implementation": "flash_attention_2"}),
        (PLAIN, {"attention.implementation": "sdpa", "parallelism.engine": "single"}),
        (
            {**PLAIN, "with_tracking": True, "dataset_mixer": {}},
            {"attention.implementation": "flash_attention_2", "stack.framework": "trainer"},
        ),
        ({**PLAIN, "fsdp": "full_shard auto_wrap"}, {"parallelism.engine": "fsdp", "parallelism.fsdp.version": 2}),
        ({**PLAIN, "fsdp": True, "fsdp_config": {"version": 1}}, {"parallelism.fsdp.version": 1}),
        (
            {**PLAIN, "fsdp": "shard_grad_op offload"},
            {"parallelism.fsdp.reshard_after_forward": False, "parallelism.fsdp.cpu_offload": True},
        ),
        ({**PLAIN, "fsdp": ""}, {"parallelism.engine": "single"}),
        (
            {**PLAIN, "dataset_name": "trl-lib/tldr", "max_length": 1024},  # ScriptArguments and SFTConfig
            {"stack.framework": "trl", "checkpointing.mode": "full", "sequence.length": 1024},
        ),
        (
            {**PLAIN, "dataset_name": "wikitext"},
            {"stack.framework": "trainer", "checkpointing.mode": "none"},
        ),  # run_clm
        ({**PLAIN, "num_processes": 4}, {"parallelism.world_size": 4, "parallelism.engine": "ddp"}),
    ],
)
def test_what_keys_mean(training: dict[str, Any], fields: dict[str, object]) -> None:
    run = run_of(parsed_of(training))
    assert {name: get(run, name) for name in fields} == fields
    assert all(name in run.origins for name in fields if get(run, name) is not False)


@pytest.mark.parametrize(
    ("training", "versions", "fields"),
    [
        (TRL, {"trl": (0, 15), "transformers": (4, 49)}, {"loss.kind": "plain", "checkpointing.mode": "none"}),
        (TRL, {"trl": (0, 15), "transformers": (4, 49)}, {"model.weights_dtype": "float32"}),
        ({**TRL, "use_liger_kernel": True}, {"trl": (0, 19)}, {"loss.kind": "liger"}),
        ({**TRL, "num_generations": 8}, {"trl": (0, 18)}, {"method.reference_model": "copy"}),
        ({**TRL, "num_generations": 8}, {"trl": (0, 19)}, {"method.reference_model": "none"}),
        ({**TRL, "num_generations": 8}, {"trl": (0, 25)}, {"sequence.length": 512 + 256}),
        ({**TRL, "num_generations": 8}, {"trl": (0, 26)}, {"sequence.length": UNKNOWN}),
        ({**TRL, "num_generations": 8, "max_prompt_length": 512}, {"trl": (1, 9)}, {"sequence.length": 512 + 256}),
        ({**TRL, "num_generations": 8, "max_prompt_length": 512}, {"trl": (1, 10)}, {"sequence.length": 512 + 512}),
        (HALF_UNSAID, {"trl": (0, 18)}, {"precision.autocast": False}),
        (HALF_UNSAID, {"trl": (0, 19)}, {"precision.autocast": True}),
        ({**HALF_UNSAID, "bf16": False}, {"trl": (0, 19)}, {"precision.autocast": False}),
        ({**PLAIN, "center_rewards_coefficient": 0.01}, {"trl": (1, 0)}, {"stack.framework": "trl"}),
        (TRL, {"trl": (0, 28), "transformers": (4, 57)}, {"evaluation.fused_loss": False}),
        (TRL, {"trl": (0, 29), "transformers": (4, 57)}, {"evaluation.fused_loss": True}),
        (DPO, {"trl": (0, 29), "transformers": (4, 57)}, {"evaluation.fused_loss": False}),
        (PLAIN, {"transformers": (5, 14)}, {"evaluation.fused_loss": False}),
        (PLAIN, {"transformers": (5, 15)}, {"evaluation.fused_loss": True}),
        (TRL, {"trl": (0, 26), "transformers": (4, 57)}, {"checkpointing.reentrant": True}),
        (TRL, {"trl": (0, 27), "transformers": (4, 57)}, {"checkpointing.reentrant": False}),
        (TRL, {"trl": (1, 3)}, {"loss.kind": "plain"}),
        (TRL, {"trl": (1, 6)}, {"loss.kind": "plain"}),
        ({**TRL, "loss_type": "chunked_nll"}, {"trl": (1, 4)}, {"loss.kind": "chunked", "loss.chunk_tokens": 256}),
        (TRL, {"trl": (1, 7)}, {"loss.kind": "chunked", "loss.chunk_tokens": 256, "loss.upcast_logits": False}),
        ({**TRL, "loss_type": "nll"}, {"trl": (1, 14)}, {"loss.kind": "plain"}),
        ({**TRL, "use_liger_kernel": True}, {"trl": (1, 14)}, {"loss.kind": "liger"}),
        (DPO, {"trl": (1, 14)}, {"loss.kind": "plain"}),
        (DPO, {"trl": (1, 15)}, {"loss.kind": "fused_head", "loss.chunk_tokens": 4096}),
        (PLAIN, {"transformers": (4, 57)}, {"model.weights_dtype": "float32", "checkpointing.reentrant": True}),
        ({**PLAIN, "fsdp": "full_shard"}, {"transformers": (4, 57)}, {"parallelism.fsdp.version": 1}),
    ],
)
def test_older_releases(training: dict[str, Any], versions: dict[str, Any], fields: dict[str, object]) -> None:
    run = run_of(parsed_of(training, versions=versions))
    assert {name: get(run, name) for name in fields} == fields


GRPO = {**QLORA, "num_generations": 4}
# (file, trl, frozen rest upcast to fp32, vocabulary back in bf16, adapters): what the trainers of that release do.
PREPARED = [
    (QLORA, (0, 7, 4), True, False, "float32"),  # sft_trainer.py:214 came with 0.7.5
    (QLORA, (0, 7, 11), True, True, "bfloat16"),  # trainer/utils.py: `isinstance(module, BaseTunerLayer)`
    (QLORA, (0, 8), True, True, "bfloat16"),
    (QLORA, (0, 9, 6), True, True, "float32"),  # trl#1644 keeps adapters in fp32
    (QLORA, (0, 25, 1), True, True, "float32"),  # models/utils.py, prepare_peft_model
    (QLORA, (0, 26, 0), False, False, "bfloat16"),  # sft_trainer.py:718, `param.data.to(torch.bfloat16)`
    (QLORA, (1, 5), False, False, "bfloat16"),
    ({**QLORA, "bf16": False, "fp16": True}, (0, 19), True, False, "float32"),
    ({**LORA, "load_in_8bit": True, "torch_dtype": "bfloat16"}, (0, 19), True, False, "float32"),  # 4 bits alone
    ({**QLORA, **DPO}, (0, 7, 6), True, False, "float32"),
    ({**QLORA, **DPO}, (0, 28), True, True, "float32"),
    ({**QLORA, **DPO}, (0, 29), False, False, "bfloat16"),
    (GRPO, (0, 21), False, False, "float32"),  # get_peft_model alone
    (GRPO, (0, 22), True, True, "float32"),
    (GRPO, (0, 26), False, False, "bfloat16"),
    ({**QLORA, "task": "orpo"}, (1, 9), True, True, "float32"),  # experimental/orpo/orpo_trainer.py
    ({**QLORA, "task": "rm"}, (0, 19), True, False, "float32"),
    ({**QLORA, "task": "rm"}, (0, 24), True, True, "float32"),
]


@pytest.mark.parametrize(("training", "trl", "upcast", "vocabulary", "adapters"), PREPARED)
def test_quantised_models_as_each_release_of_trl_prepares_them(
    training: dict[str, Any], trl: tuple[int, ...], upcast: bool, vocabulary: bool, adapters: str
) -> None:
    run = run_of(parsed_of(training, versions={"trl": trl}))
    quantization = run.model.quantization
    assert (quantization.upcast_rest_to_fp32, quantization.vocabulary_to_bf16) == (upcast, vocabulary)
    assert run.method.adapter_dtype == adapters


@pytest.mark.parametrize(
    ("stage", "trl", "unsaid", "null"),
    [
        ("sft", (0, 12), 1024, 1024),
        ("sft", (0, 15), 1024, UNKNOWN),
        ("sft", (1, 16), 1024, UNKNOWN),
        ("dpo", (0, 11), 512, 512),
        ("dpo", (0, 13), UNKNOWN, UNKNOWN),
        ("dpo", (0, 14), 1024, UNKNOWN),
        ("rm", (0, 13), 512, 512),
        ("rm", (0, 14), 1024, UNKNOWN),
        ("kto", (0, 13), 512, 512),
        ("kto", (0, 19), 1024, 512),
        ("kto", (1, 4), 1024, UNKNOWN),
        ("orpo", (1, 16), 1024, 512),
    ],
)
def test_the_length_that_trl_cuts_to_where_none_is_said(
    stage: str, trl: tuple[int, ...], unsaid: object, null: object
) -> None:
    """trl 0.8.6 to 1.16.0 (13 releases read): trainer/<stage>_trainer.py and <stage>_config.py."""
    key = "max_seq_length" if stage == "sft" and trl < (0, 16) else "max_length"
    for keys, length in (({}, unsaid), ({key: None}, null)):
        run = run_of(parsed_of({**TRL, "task": stage, **keys}, versions={"trl": trl}))
        assert (run.method.stage, run.sequence.length) == (stage, length)


@pytest.mark.parametrize("stage", [2, 3])
def test_deepspeed_casts_what_trl_prepared(stage: int) -> None:
    """engine.py, `module.bfloat16()`; and under ZeRO-3 `is_sharded_qlora` calls nothing at all."""
    config = {"zero_optimization": {"stage": stage}, "bf16": {"enabled": True}}
    run = run_of(parsed_of({**QLORA, "deepspeed": config}, versions={"trl": (0, 19)}))
    assert not run.model.quantization.upcast_rest_to_fp32
    assert run.method.adapter_dtype == "bfloat16"


@pytest.mark.parametrize(("storage", "adapters"), [("bfloat16", "bfloat16"), (None, "float32")])
def test_fsdp_keeps_quantised_models_as_loaded(storage: str | None, adapters: str) -> None:
    """Before 0.26 TRL has no key for the storage: it takes the dtype of the model (trl/trainer/utils.py)."""
    training = {**QLORA, "fsdp": "full_shard", "torch_dtype": storage}
    run = run_of(parsed_of(training, versions={"trl": (0, 19)}))
    assert not run.model.quantization.upcast_rest_to_fp32
    assert run.model.quantization.storage_dtype == (storage or "uint8")
    assert run.method.adapter_dtype == adapters


@pytest.mark.parametrize(
    ("transformers", "words", "config", "expected"),
    [
        (
            (4, 57),
            "full_shard",
            {"version": 2, "state_dict_type": "SHARDED_STATE_DICT"},
            (1, "none", "FULL_STATE_DICT"),
        ),
        ((4, 57), "full_shard auto_wrap", {"min_num_params": 2000}, (1, "size", "FULL_STATE_DICT")),
        ((5, 9), "full_shard auto_wrap", {}, (1, "transformer", "FULL_STATE_DICT")),
        ((5, 9), "full_shard", {"fsdp_version": 2}, (2, "none", "SHARDED_STATE_DICT")),
        ((5, 10), "full_shard", {}, (2, "transformer", "FULL_STATE_DICT")),
        ((5, 10), "full_shard", {"state_dict_type": "SHARDED_STATE_DICT"}, (2, "transformer", "SHARDED_STATE_DICT")),
    ],
)
def test_fsdp_as_each_release_of_transformers_reads_it(
    transformers: tuple[int, ...], words: str, config: dict[str, Any], expected: tuple[int, str, str]
) -> None:
    run = run_of(parsed_of({**PLAIN, "fsdp": words, "fsdp_config": config}, versions={"transformers": transformers}))
    fsdp = run.parallelism.fsdp
    assert (fsdp.version, fsdp.wrap, fsdp.state_dict_type) == expected


def test_deepspeed_behind_a_path_and_inline() -> None:
    config = {"zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}, "bf16": {"enabled": "auto"}}
    by_path = parsed_of({**PLAIN, "deepspeed": "ds.json"}, files={"ds.json": config})
    inline = parsed_of({**PLAIN, "deepspeed": config})
    for parsed in (by_path, inline):
        run = run_of(parsed)
        assert (run.parallelism.engine, run.parallelism.zero.stage) == ("deepspeed", 3)
        assert run.parallelism.zero.reduce_bucket_size == 4096 * 4096
        assert run.model.weights_dtype == "bfloat16"
    assert run_of(by_path).related == ("ds.json",)
    assert run_of(by_path).origins["parallelism.zero.stage"].kind == "companion"
    assert run_of(inline).origins["parallelism.zero.stage"].pointer == ("deepspeed", "zero_optimization", "stage")


@pytest.mark.parametrize(("stage", "dtype"), [(3, "float32"), (2, "bfloat16")])
def test_stage_3_without_half_precision_loads_in_fp32(stage: int, dtype: str) -> None:
    """transformers 5.23 modeling_utils.py:3821 enters deepspeed.zero.Init, whose dtype is then torch.float."""
    training = {**PLAIN, "bf16": False, "torch_dtype": "bfloat16", "deepspeed": {"zero_optimization": {"stage": stage}}}
    run = run_of(parsed_of(training))
    precision = run.precision
    assert (run.model.weights_dtype, precision.trainable_dtype, precision.compute) == (dtype, dtype, dtype)


def test_a_missing_deepspeed_file_is_said_and_leaves_the_stage_unknown() -> None:
    parsed = parsed_of({**PLAIN, "deepspeed": "nowhere.json"})
    assert codes(parsed) == ["missing-reference"]
    assert run_of(parsed).parallelism.zero.stage is UNKNOWN


def test_lora_under_zero3_checkpoints_reentrantly_in_trl() -> None:
    config = {"zero_optimization": {"stage": 3}}
    assert run_of(parsed_of({**LORA, "deepspeed": config})).checkpointing.reentrant is True
    assert run_of(parsed_of({**TRL, "deepspeed": config})).checkpointing.reentrant is False


def test_an_unknown_model_leaves_what_depends_on_it_unknown() -> None:
    run = run_of(parsed_of(PLAIN, known=False))
    assert (run.model.name, run.model.architecture, run.model.weights_dtype) == ("some/model", UNKNOWN, UNKNOWN)
    assert run.origins["model.architecture"].detail == "not known"


YAML = """model_name_or_path: some/model
output_dir: out
per_device_train_batch_size: 4
learning_rate: {rate}
num_train_epochs: 1
{rest}
"""


@pytest.mark.parametrize(
    ("rate", "rest", "found"),
    [
        ("1.0e-5", "", []),
        ("1e-5", "", [("string-number", "warning")]),
        ("1e-5", "dataset_num_proc: 4", [("string-number", "warning")]),  # TrlParser converts it
        ("1e-5", "warmup_steps: 1e2", [("string-number", "warning"), ("string-number", "warning")]),
        ("0.1", "optim: adamw_trch", [("bad-value", "error")]),
        ("0.1", "bf16: true\nfp16: true", []),  # PRE011 says it, and mends it
        ("0.1", "load_in_4bit: true\nload_in_8bit: true", [("conflict", "error")]),
        ("0.1", "gradient_accumulation_step: 4", [("unknown-key", "warning")]),
        ("0.1", "dataset_kwarg: {add_special_tokens: false}", [("unknown-key", "warning")]),
        ("0.1", "dataset: a/b\ndevices: 4", []),  # a script's own
        ("0.1", "dataset: {path: a/b}", []),  # a script's own: `datasets` takes a list
        ("0.1", "gradient_checkpoint: true", [("unknown-key", "warning")]),  # what others call it
        ("0.1", "my_own_script_key: 4\nlora_rank_2: 1\nmodel_tag: x", []),
        ("0.1", "eval_strategy: no\nsave_strategy: no", []),
        ("0.1", "bias: none\nmode: sft", []),  # short names of a script are no slips of `bits` and `model`
        ("0.1", "resume_from_checkpoint: false", []),
        ("0.1", "max_seq_length: 512\ntorch_dtype: bfloat16", []),  # keys of the script
        ("0.1", "evaluation_strategy: steps", [("renamed-key", "info")]),
        ("0.1", "optim: ${OPTIM}\nwarmup_steps: ${WARMUP}\nmodel_revision: $REVISION", []),  # a template's
        ("0.1", "overwrite_output_dir: true", [("removed-key", "info")]),
        ("0.1", "max_seq_length: 512\npacking: true", [("renamed-key", "info")]),
    ],
)
def test_what_there_is_to_say(rate: str, rest: str, found: list[tuple[str, str]]) -> None:
    parsed = trainer.parse(document(YAML.format(rate=rate, rest=rest), "train.yaml"), context())
    assert [(issue.code, issue.severity) for issue in parsed.issues] == found


def test_a_number_that_is_text_is_suggested_with_a_dot() -> None:
    parsed = trainer.parse(document(YAML.format(rate="1e-5", rest=""), "train.yaml"), context())
    assert parsed.issues[0].suggestion == "1.0e-5"


RECORD = {"logging_nan_inf_filter": True, "log_on_each_node": True, "log_level_replica": -1, "ignore_data_skip": False}


@pytest.mark.parametrize(("more", "found"), [({}, ["removed-key", "missing-reference"]), (RECORD, [])])
def test_what_a_run_wrote_down_is_read_by_no_parser(more: dict[str, Any], found: list[str]) -> None:
    parsed = parsed_of({**PLAIN, "past_index": 2, "deepspeed": "None", **more})
    assert [issue.code for issue in parsed.issues] == found


def test_json_numbers_are_numbers() -> None:
    text = '{"model_name_or_path": "m", "output_dir": "o", "learning_rate": 1e-5, "num_train_epochs": 1}'
    assert codes(trainer.parse(document(text), context())) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 32},
        {"checkpointing.mode": "full"},
        {"attention.implementation": "flash_attention_2"},
        {"optimizer.name": "paged_adamw_8bit"},
        {"evaluation.batch_size": 1, "evaluation.accumulation_steps": 4},
        {"parallelism.zero.stage": 3, "offload.optimizer": "cpu"},
    ],
)
def test_edits_say_what_was_asked_for(changes: dict[str, Any]) -> None:
    ds = {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": 4}
    training = {**PLAIN, "deepspeed": "ds.json"}
    parsed = parsed_of(training, files={"ds.json": ds})
    edits = trainer.edits(parsed, run_of(parsed), changes)
    assert edits is not None
    files = {"ds.json": applied(ds, edits, "ds.json")}
    after = parsed_of(applied(training, edits, "train.json"), files=files)
    kept = {
        name: value for name, value in changes.items() if name != "optimizer.name" or "offload.optimizer" in changes
    }
    assert {name: get(run_of(after), name) for name in kept} == kept
    assert codes(after) == []


def test_a_launch_file_is_no_deepspeed_configuration() -> None:
    launch = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 2\n"
    parsed = parsed_of({**PLAIN, "deepspeed": "zero3.yaml"}, files={"zero3.yaml": launch})
    (issue,) = parsed.issues
    assert issue.code == "wrong-companion"
    assert "accelerate's launch file" in issue.message


def test_edits_keep_the_spelling_of_the_file() -> None:
    parsed = parsed_of({**PLAIN, "activation_checkpointing": False, "max_seq_length": 4096})
    edits = trainer.edits(parsed, run_of(parsed), {"checkpointing.mode": "full", "sequence.length": 2048})
    assert {edit.pointer[0]: (edit.action, edit.value) for edit in edits or ()} == {
        "activation_checkpointing": ("set", True),
        "max_seq_length": ("set", 2048),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism.zero.stage": 3},  # there is no DeepSpeed file
        {"checkpointing.mode": "unsloth"},
        {"sequence.length": 512},  # the script decides
        {"parallelism.tensor_parallel_size": 2},
        {"batch.micro_batch_size": 0},
    ],
)
def test_edits_refuse_what_cannot_be_said(changes: dict[str, Any]) -> None:
    parsed = parsed_of(PLAIN)
    assert trainer.edits(parsed, run_of(parsed), changes) is None


KEYS = sorted(compiled_schema("trainer.json").schema["properties"])


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), ANYTHING, max_size=8))
def test_no_value_makes_it_raise(value: dict[str, Any]) -> None:
    plain = document({})._replace(value={**PLAIN, **value})
    trainer.recognise(plain)
    parsed = trainer.parse(plain, context())
    run = run_of(parsed)
    assert all(name.split(".")[0] in run._fields for name in run.origins)
    trainer.edits(parsed, run, {"batch.micro_batch_size": 1, "checkpointing.mode": "full"})


@pytest.mark.parametrize("value", [None, True, 7, 1.5, "text", [], {}, [1, "a"], {"a": 1}, float("nan"), 10**30])
def test_every_key_takes_every_kind_of_value(value: Any) -> None:
    assert KEYS
    for key in KEYS:
        parsed = trainer.parse(document({})._replace(value={**PLAIN, key: value}), context())
        assert len(parsed.runs) == 1


def test_scripts_with_their_own_names_for_things() -> None:
    # model_id, micro_batch_size, seq_len, method and optimizer instead of TrainingArguments' names
    own = {
        "model_id": "some/model",
        "base_dtype": "bf16",
        "micro_batch_size": 1,
        "seq_len": 1024,
        "method": "qlora",
        "lora_rank": 16,
        "output_dir": "out",
        "gradient_accumulation_steps": 8,
        "learning_rate": 2e-4,
        "max_steps": 10,
    }
    run = run_of(parsed_of(own))
    assert (run.batch.micro_batch_size, run.sequence.length, run.method.kind) == (1, 1024, "lora")
    assert (run.model.quantization.bits, run.model.weights_dtype) == (4, "bfloat16")
    assert codes(parsed_of(own)) == []


def test_a_fragment_without_model_or_output_is_claimed_only_when_nearly_all_keys_are_arguments() -> None:
    few = {"learning_rate": 1e-4, "num_train_epochs": 2, "per_device_train_batch_size": 2, "warmup_steps": 6}
    many = {
        **few,
        **dict.fromkeys(("gradient_accumulation_steps", "eval_steps", "save_steps", "logging_steps"), 4),
        "lr_scheduler_type": "linear",
        "save_strategy": "no",
        "weight_decay": 0.1,
        "max_steps": 20,
    }
    assert trainer.recognise(document({**few, "freeze_layer": 20, "datasets": ["a"]})).confidence == "no"
    assert trainer.recognise(document(many)).confidence == "likely"
    trl = dict.fromkeys(("beta", "num_generations", "max_completion_length", "use_vllm", "torch_dtype", "seed"), 1)
    assert trainer.recognise(document({**many, **trl, "reward_task": "a", "reward_weight_own": 1})).confidence != "no"
    assert trainer.recognise(document({**many, **{f"own_{i}": i for i in range(9)}})).confidence == "no"


def test_a_file_of_grpo_needs_no_output_folder() -> None:
    grpo = {
        "model_name_or_path": "Qwen/Qwen2.5-7B-Instruct",
        "dataset_name": "trl-lib/tldr",
        "per_device_train_batch_size": 8,
        "num_generations": 8,
        "max_completion_length": 4096,
    }
    assert trainer.recognise(document(grpo)).confidence == "likely"
    assert trainer.recognise(document({**grpo, **{f"own_{i}": i for i in range(4)}})).confidence == "no"


LORA_CHANGES = {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("all-linear",)}
NF4 = {
    "model.quantization.method": "bnb",
    "model.quantization.bits": 4,
    "model.quantization.kind": "nf4",
    "model.quantization.double_quant": True,
}
HALF = {"model.weights_dtype": "bfloat16", "precision.trainable_dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("training", "changes"),
    [
        (TRL, LORA_CHANGES),
        (DPO, {**LORA_CHANGES, **NF4}),
        (LORA, NF4),
        ({**TRL, "dtype": "float32"}, HALF),
        ({**PLAIN, "torch_dtype": "float32"}, HALF),
        (LORA, {"model.weights_dtype": "bfloat16"}),
        (QLORA, {"method.targets": ("q_proj", "v_proj"), "method.rank": 8}),
        (TRL, {"optimizer.name": "adafactor"}),
    ],
)
def test_adapters_bits_and_dtypes_are_said_in_trls_words(training: dict[str, Any], changes: dict[str, Any]) -> None:
    parsed = parsed_of(training)
    edits = trainer.edits(parsed, run_of(parsed), changes)
    assert edits is not None
    after = parsed_of(applied(training, edits, parsed.documents[0].path))
    assert {name: get(run_of(after), name) for name in changes} == changes
    assert codes(after) == []


@pytest.mark.parametrize("changes", [LORA_CHANGES, NF4, HALF])
def test_a_script_that_is_not_trls_has_no_such_words(changes: dict[str, Any]) -> None:
    parsed = parsed_of(PLAIN)
    assert trainer.edits(parsed, run_of(parsed), changes) is None


EVALUATION = {
    **{key: PLAIN[key] for key in ("model_name_or_path", "output_dir", "bf16") if key in PLAIN},
    "do_eval": True,
    "per_device_eval_batch_size": 16,
    "dataloader_num_workers": 2,
    "seed": 1,
}


def test_a_file_that_only_evaluates_trains_nothing() -> None:
    for value in (EVALUATION, {**PLAIN, "do_train": False, "do_eval": True}):
        (run,) = parsed_of(value).runs
        assert (run.purpose, run.method.kind, run.evaluation.enabled) == ("inference", "none", True)
    assert parsed_of(EVALUATION).runs[0].batch.micro_batch_size == 16


def test_a_file_of_training_or_of_trl_trains_whatever_it_evaluates() -> None:
    """TRL's scripts call `trainer.train()` without asking `do_train` (trl 1.16 scripts/sft.py)."""
    for value in (
        {**PLAIN, "do_eval": True},
        {**TRL, "do_train": False, "do_eval": True},
        {**PLAIN, "do_train": False},
    ):
        assert parsed_of(value).runs[0].purpose == "train"


def test_prediction_keeps_the_logits() -> None:
    """transformers 5.23 trainer.py, predict: `prediction_loss_only` is the argument's, not that of `evaluate`."""
    predicting = {**EVALUATION, "do_eval": False, "do_predict": True}
    assert parsed_of(predicting).runs[0].evaluation.keeps_logits is True
    assert parsed_of({**predicting, "prediction_loss_only": True}).runs[0].evaluation.keeps_logits is False
    assert parsed_of(EVALUATION).runs[0].evaluation.keeps_logits is False


@pytest.mark.parametrize(
    ("stage", "key", "trl", "kind"),
    [
        ("dpo", "use_liger_loss", (0, 17), "plain"),
        ("dpo", "use_liger_loss", (0, 19), "liger"),
        ("dpo", "use_liger_kernel", (0, 19), "plain"),
        ("dpo", "use_liger_kernel", (0, 29), "liger"),
        ("dpo", "use_liger_kernel", (1, 16), "fused_head"),
        ("kto", "use_liger_loss", (0, 22), "liger"),
        ("kto", "use_liger_kernel", (0, 29), "plain"),
        ("grpo", "use_liger_loss", (0, 17), "liger"),
        ("grpo", "use_liger_kernel", (1, 0), "liger"),
    ],
)
def test_liger_s_preference_losses_by_release(stage: str, key: str, trl: tuple[int, ...], kind: str) -> None:
    """trl 0.17.0, 0.18.2, 0.19.1, 0.22.2, 0.26.2, 0.29.0, 1.0.0 and 1.9.0 trainer/{dpo,kto,grpo}_trainer.py."""
    grpo = {"num_generations": 8, "max_completion_length": 256}
    own = {"dpo": DPO, "kto": {"desirable_weight": 1.0}, "grpo": grpo}[stage]
    lengths = {"max_length": 1024, "max_prompt_length": 512}
    (run,) = parsed_of({**TRL, **own, **lengths, key: True}, versions={"trl": trl}).runs
    assert (run.method.stage, run.loss.kind) == (stage, kind)
    if kind == "liger":  # one pair, one sequence, one completion at a time
        assert run.loss.chunk_tokens == {"dpo": 2048, "kto": 1024, "grpo": 256}[stage]


@pytest.mark.parametrize(("stage", "since"), [("grpo", (0, 14)), ("dpo", (0, 7, 11)), ("kto", (0, 8))])
def test_log_probabilities_are_of_the_logits_that_the_model_returns(stage: str, since: tuple[int, ...]) -> None:
    """trl 0.7.1 trainer/dpo_trainer.py:317 makes fp32 of them, 0.7.11 to 1.16.0 do not: accelerate does, and DeepSpeed
    has no part of it."""
    own = {"dpo": DPO, "kto": {"desirable_weight": 1.0}, "grpo": {"num_generations": 8}}[stage]
    (run,) = parsed_of({**TRL, **own}, versions={"trl": since}).runs
    assert (run.method.stage, run.loss.scores_in_fp32) == (stage, False)
    (before,) = parsed_of({**TRL, **DPO}, versions={"trl": (0, 7, 1)}).runs
    assert before.loss.scores_in_fp32


PPO = {**TRL, "reward_model_path": "r", "max_prompt_length": 512, "response_length": 128}


def test_ppo_trains_a_value_model_in_the_same_step() -> None:
    """trl 0.22 trainer/ppo_trainer.py: `PolicyAndValueWrapper(self.policy_model, self.value_model)`."""
    small = from_config({**TINY, "torch_dtype": "bfloat16"})
    known = context()._replace(find_model=lambda name, path: Resolution(name, "catalog", small))
    run = run_of(trainer.parse(document({**PPO, "gradient_checkpointing": True}), known))
    value = run.method.value_model
    assert (run.method.stage, value.in_one_step, value.trains_adapter) == ("ppo", True, False)
    assert (value.checkpointed, run.checkpointing.mode) == (False, "none")
    assert (run.sequence.length, run.sequence.max_new_tokens) == (640, 128)
    assert (run.rollout.sequences, run.rollout.reference_micro_batch_size, run.rollout.keeps_scores) == (32, 32, True)
    both, alone = estimate(run), estimate(run._replace(method=run.method._replace(value_model=None)))
    assert both.allocated_bytes is not None and alone.allocated_bytes is not None
    head = TINY["vocab_size"] * TINY["hidden_size"]
    second = both.details["optimizer_state_bytes"] - alone.details["optimizer_state_bytes"]
    assert second == pytest.approx(8 * (run_parameters(small) - head), rel=0.01)
    assert [one.allocated_bytes for one in both.phases][1:4] > [one.allocated_bytes for one in alone.phases][1:4]
    assert {one.name for one in both.phases} >= {"forward", "backward", "optimizer_step", "generation", "reference"}
    fewer = run_of(trainer.parse(document({**PPO, "local_rollout_forward_batch_size": 4}), known))
    assert fewer.rollout.reference_micro_batch_size == 4


def test_ppo_without_a_reward_model_has_no_figure() -> None:
    run = run_of(parsed_of({**PPO, "reward_model_path": None, "task_type": None, "num_generations": None}))
    unnamed = run_of(trainer.parse(document({**TRL, "reward_model_path": "${MODEL}"}), context()))
    assert run.method.stage != "ppo" and unnamed.method.stage == "ppo"


def test_an_optimizer_that_newer_releases_lack_is_gone_not_misspelt() -> None:
    gone = parsed_of({**TRL, "optim": "adamw_hf"})
    assert [(issue.code, issue.severity) for issue in gone.issues] == [("removed-value", "info")]
    assert codes(parsed_of({**TRL, "optim": "adamw_hff"})) == ["bad-value"]


@pytest.mark.parametrize(("method", "packed"), [("awq", True), ("gptq", True), ("bnb", True), ("fp8", False)])
def test_a_packed_checkpoint_stays_packed(method: str, packed: bool) -> None:
    stored = LLAMA._replace(stored=StoredWeights(method, 4, "int4", 128))
    known = context()._replace(find_model=lambda name, path: Resolution(name, "catalog", stored))
    found = run_of(trainer.parse(document(QLORA), known)).model.quantization
    assert (found.method, found.prequantized) == (method if packed else "bnb", packed)
    assert found.group_size == (128 if packed else 0)


def test_a_parallelism_config_divides_sequences_and_layers() -> None:
    sizes = {"cp_size": 2, "tp_size": 2, "dp_shard_size": 2}
    found = run_of(trainer.parse(document({**LORA, "parallelism_config": sizes}), context(gpus=8))).parallelism
    assert (found.context_parallel_size, found.tensor_parallel_size, found.sequence_parallel_size) == (2, 2, 1)
    open_one = run_of(trainer.parse(document({**LORA, "parallelism_config": {"sp_size": "${SP}"}}), context(gpus=8)))
    assert "sp_size" in open_one.stack.unmodelled


GKD: dict[str, Any] = {**TRL, "teacher_model_name_or_path": "some/teacher", "lmbda": 0.5}


@pytest.mark.parametrize(
    ("more", "fields"),
    [
        ({}, {"method.stage": "gkd", "method.reference_model": "named", "loss.divergence": "mixture"}),
        ({}, {"sequence.length": 1024 + 128, "rollout.generator": "model", "loss.in_row_chunks": False}),
        ({"lmbda": 0}, {"sequence.length": 1024, "rollout.generator": ""}),
        ({"lmbda": 0, "seq_kd": True}, {"sequence.length": 1024 + 128, "rollout.generator": "model"}),
        ({"max_new_tokens": 64, "max_length": 512}, {"sequence.length": 576, "sequence.max_new_tokens": 64}),
        ({"gradient_checkpointing": True}, {"serving.uses_cache": False}),
        ({"gradient_checkpointing": False}, {"serving.uses_cache": True}),
        ({"beta": 0.0}, {"loss.divergence": "forward"}),
        ({"teacher_model_name_or_path": None}, {"method.extra_models": (), "loss.divergence": ""}),
        ({"lmbda": None, "max_completion_length": 256}, {"method.extra_models": (), "loss.divergence": ""}),
    ],
)
def test_gkd_has_a_teacher_and_completions_of_its_own(more: dict[str, Any], fields: dict[str, Any]) -> None:
    run = run_of(parsed_of({**GKD, **more}))
    assert {field: get(run, field) for field in fields} == fields
    assert bool(run.stack.unmodelled) is (not run.loss.divergence)


@pytest.mark.parametrize(("release", "share", "compared"), [((1, 6), 1, 128), ((1, 6), 0.5, 1024), ((1, 7), 1, 0)])
def test_before_trl_1_7_gkd_compares_what_stands_behind_prompts(
    release: tuple[int, ...], share: float, compared: int
) -> None:
    known = context(versions={"trl": release})
    assert run_of(trainer.parse(document({**GKD, "lmbda": share}), known)).loss.compared_tokens == compared


ONLINE = {**TRL, "judge": "pair_rm", "num_generations": None, "max_completion_length": None, "beta": None}


@pytest.mark.parametrize(
    ("task", "more", "fields"),
    [
        ("online_dpo", {}, {"sequence.length": 512, "sequence.max_new_tokens": 64, "loss.selection": ""}),
        ("xpo", {"max_prompt_length": 448}, {"sequence.length": 512, "loss.selection": "rows"}),
        ("nash_md", {"max_prompt_length": 448}, {"sequence.length": 512, "sequence.max_new_tokens": 64}),
        ("nash_md", {"max_length": 256}, {"sequence.length": UNKNOWN, "loss.scores_completions": True}),
        ("xpo", {"reward_model_path": "some/reward"}, {"method.reward_model": "full"}),
    ],
)
def test_who_writes_two_completions_of_a_prompt(task: str, more: dict[str, Any], fields: dict[str, Any]) -> None:
    run = run_of(parsed_of({**ONLINE, "max_length": 512, "task": task, **more}))
    assert run.method.stage == task and run.method.reference_model != "none"
    assert {field: get(run, field) for field in fields} == fields


@pytest.mark.parametrize(
    ("release", "word"),
    [
        ((0, 29), "divided"),
        ((1, 9), "divided_in_place"),
        ((1, 10), "divided"),
        ((1, 13), "divided"),
        ((1, 14), "kernel"),
    ],
)
def test_how_grpo_divides_logits_by_the_temperature(release: tuple[int, ...], word: str) -> None:
    known = context(versions={"trl": release})
    assert run_of(trainer.parse(document(GRPO), known)).loss.selection == word


@pytest.mark.parametrize(("release", "converted"), [((0, 23), False), ((0, 24), True)])
def test_since_0_24_the_reference_of_online_dpo_is_prepared(release: tuple[int, ...], converted: bool) -> None:
    known = context(versions={"trl": release})
    assert run_of(trainer.parse(document(ONLINE), known)).loss.reference_converted is converted


@pytest.mark.parametrize(
    ("places", "is_own"), [((), False), (("",), True), (("", "trl"), False)]
)  # declared nowhere, in a class of one's own, in a copy of TRL
def test_a_teacher_of_the_repository_s_own_arguments_is_no_gkd_s(places: tuple[str, ...], is_own: bool) -> None:
    def declared(key: str, below: str = "") -> str:
        return "Optional[str]" if key == "teacher_model_name_or_path" and below in places else ""

    parsed = trainer.parse(
        document(GKD), context()._replace(repository=RepositoryFacts().but(field_annotations=declared))
    )
    assert ("the program's own" in run_of(parsed).stack.unmodelled) is is_own


@pytest.mark.parametrize(("release", "codes"), [((4, 52, 4), 0), ((4, 53), 1)])
def test_the_switch_for_flash_attention_went_with_4_53(release: tuple[int, ...], codes: int) -> None:
    """transformers 4.52.4 modeling_utils.py pops `use_flash_attention_2`, 4.53.0 has no such word."""
    text = YAML.format(rate="0.1", rest="use_flash_attention_2: true")
    parsed = trainer.parse(document(text, "train.yaml"), context(versions={"transformers": release}))
    assert len(parsed.issues) == codes


@pytest.mark.parametrize(("release", "codes"), [((4, 46, 2), []), ((4, 51), ["unknown-key"])])
def test_the_old_name_of_the_strategy_is_known_up_to_4_50(release: tuple[int, ...], codes: list[str]) -> None:
    text = YAML.format(rate="0.1", rest="evaluation_strategy: steps")
    parsed = trainer.parse(document(text, "train.yaml"), context(versions={"transformers": release}))
    assert [issue.code for issue in parsed.issues] == codes


@pytest.mark.parametrize(
    ("own", "stage", "adds"),
    [
        ({"cpo_alpha": 1.0}, "cpo", True),
        ({"cpo_alpha": 0}, "cpo", False),
        ({"simpo_gamma": 0.5}, "simpo", True),
        ({"simpo_gamma": 0.5, "cpo_alpha": 0.0}, "simpo", False),
        ({"loss_type": "orpo"}, "orpo", True),
        ({**DPO, "rpo_alpha": 1.0}, "dpo", True),
        (DPO, "dpo", False),
    ],
)
def test_losses_with_the_likelihood_of_the_chosen_answers(own: dict[str, Any], stage: str, adds: bool) -> None:
    """trl 1.16 experimental/cpo/cpo_trainer.py:842, experimental/orpo/orpo_trainer.py:800; 0.22 dpo_trainer.py:1591."""
    run = run_of(parsed_of({**TRL, **own}))
    assert (run.method.stage, run.loss.likelihood_of_chosen) == (stage, adds)


@pytest.mark.parametrize(
    ("said", "versions", "generator"),
    [
        ({}, {}, "vllm_colocate"),
        ({}, {"trl": (0, 29)}, "vllm"),
        ({"vllm_server_host": "127.0.0.1"}, {}, "vllm"),
        ({"vllm_server_host": "127.0.0.1"}, {"trl": (1, 0)}, "vllm_colocate"),
        ({"vllm_server_port": 8000, "vllm_mode": "colocate"}, {}, "vllm_colocate"),
        ({"vllm_mode": "server"}, {"trl": (1, 0)}, "vllm"),
        ({"vllm_device": "cuda:7"}, {}, "vllm"),
    ],
)
def test_where_vllm_runs(said: dict[str, Any], versions: dict[str, tuple[int, ...]], generator: str) -> None:
    (run,) = parsed_of({**LORA, "num_generations": 4, "use_vllm": True, **said}, versions=versions).runs
    assert run.rollout.generator == generator


def test_a_key_that_went_after_the_newest_trl_for_a_stated_transformers_is_there() -> None:
    """trl 0.20 needs transformers 4.55: before that `max_seq_length` is the name."""
    training = {**TRL, "max_seq_length": 512}
    assert "renamed-key" in codes(parsed_of(training)) and "renamed-key" in codes(
        parsed_of(training, versions={"trl": (0, 20)})
    )
    assert "renamed-key" not in codes(parsed_of(training, versions={"transformers": (4, 42)}))


@pytest.mark.parametrize(
    ("engine", "config", "dtype"),
    [
        ({"deepspeed": "ds.json"}, {}, "float32"),
        ({"deepspeed": "ds.json"}, {"seq_parallel_communication_data_type": "bf16"}, "bfloat16"),
        ({"fsdp": "full_shard"}, {}, ""),
    ],
)
def test_deepspeed_reduces_in_fp32_where_it_divides_sequences(
    engine: dict[str, Any], config: dict[str, Any], dtype: str
) -> None:
    file = {"ds.json": {"zero_optimization": {"stage": 3}, "bf16": {"enabled": True}, **config}}
    shared = run_of(
        trainer.parse(document({**PLAIN, **engine, "parallelism_config": {"sp_size": 4}}), context(file, gpus=8))
    )
    assert shared.parallelism.zero.communication_dtype == dtype
    alone = run_of(trainer.parse(document({**PLAIN, **engine}), context(file, gpus=8)))
    assert alone.parallelism.zero.communication_dtype == ""


@pytest.mark.parametrize(("loss", "stage"), [("sft", "sft"), ("orpo", "orpo"), ("dpo", "dpo")])
def test_a_files_own_word_for_its_loss_outranks_beta(loss: str, stage: str) -> None:
    assert run_of(parsed_of({**TRL, "beta": 0.1, "loss": loss})).method.stage == stage
