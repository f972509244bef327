"""Oumi's training configs: recognition, what each key becomes (0.1.14 to 0.9), what is refused, edits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings

from memlint.architectures import from_config
from memlint.architectures.model import Resolution
from memlint.formats import recognise
from memlint.formats.base import Context, Parsed
from memlint.formats.oumi import format as oumi
from memlint.formats.trainer import format as trainer
from memlint.memory.estimate import estimate
from memlint.run import UNKNOWN, Run, get
from memlint.source.document import place
from tests.formats.frameworks import ANYTHING, applied, codes, context, document, run_of
from tests.memory.runs import TINY

LLAMA = from_config({**TINY, "torch_dtype": "bfloat16", "max_position_embeddings": 8192})
SFT: dict[str, Any] = {
    "model": {"model_name": "some/model", "model_max_length": 2048, "torch_dtype_str": "bfloat16"},
    "data": {"train": {"datasets": [{"dataset_name": "yahma/alpaca-cleaned"}]}},
    "training": {"trainer_type": "TRL_SFT", "per_device_train_batch_size": 4, "optimizer": "adamw_torch_fused"},
}
ENABLED = {"deepspeed.enable_deepspeed": True}
OTHER_SIZE = "a model with another `num_hidden_layers`"
ADAPTER = {"training.use_peft": True, "peft.lora_r": 16, "peft.lora_target_modules": ["q_proj", "v_proj"]}


def changed(pairs: dict[str, Any]) -> dict[str, Any]:
    """SFT with dotted keys set."""
    found: dict[str, Any] = json.loads(json.dumps(SFT))
    for key, value in pairs.items():
        *outer, last = key.split(".")
        node = found
        for step in outer:
            node = node.setdefault(step, {})
        node[last] = value
    return found


def known(**fields: Any) -> Context:
    return context(**fields)._replace(find_model=lambda name, path: Resolution(name, "catalog", LLAMA))


def parsed(value: Any, gpus: int = 1, **fields: Any) -> Parsed:
    return oumi.parse(document(value), known(gpus=gpus, gpus_per_node=gpus, **fields))


def read(pairs: dict[str, Any], gpus: int = 1, **fields: Any) -> Run:
    return run_of(parsed(changed(pairs), gpus, **fields))


# -- recognition -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (SFT, "oumi"),
        (changed({"deepspeed.enable_deepspeed": True}), "oumi"),
        ({"model": {"model_name": "a/b"}, "training": {"enable_wandb": True, "output_dir": "x"}}, "oumi"),
        # a script's own file with sections of the same names; Oumi's files for inference and for evaluation
        ({"model": {"model_name": "a/b"}, "training": {"learning_rate": 1e-4, "batch_size": 4}}, ""),
        ({"model": {"model_name": "a/b"}, "engine": "VLLM", "generation": {"max_new_tokens": 8}}, ""),
        ({"model": {"model_name": "a/b"}, "tasks": [{"evaluation_backend": "lm_harness"}]}, ""),
    ],
)
def test_recognition(value: Any, name: str) -> None:
    found = recognise(document(value))
    assert (found[0].NAME if found and found[1].confidence != "unsure" else "") == name


@given(ANYTHING)
@settings(max_examples=60, deadline=None)
def test_no_value_breaks_it(value: Any) -> None:
    oumi.parse(document(json.dumps({"model": value, "training": value, "peft": value, "deepspeed": value})), known())


# -- what keys become ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "field", "value"),
    [
        ({}, "batch.micro_batch_size", 4),
        ({}, "batch.gradient_accumulation_steps", 1),
        ({}, "sequence.length", 2048),
        ({}, "model.weights_dtype", "bfloat16"),
        ({}, "precision.autocast", False),
        ({}, "checkpointing.mode", "none"),  # unlike TRL's own default
        ({"training.enable_gradient_checkpointing": True}, "checkpointing.mode", "full"),
        ({}, "optimizer.name", "adamw_torch_fused"),
        ({}, "method.kind", "full"),
        ({"model.torch_dtype_str": "float32", "training.mixed_precision_dtype": "BF16"}, "precision.autocast", True),
        ({"model.torch_dtype_str": "f32"}, "model.weights_dtype", "float32"),
        ({"model.enable_liger_kernel": True}, "loss.kind", "liger"),
        ({"model.attn_implementation": "flash_attention_2"}, "attention.implementation", "flash_attention_2"),
        ({"training.trainer_type": "TRL_DPO"}, "method.stage", "dpo"),
        ({"training.trainer_type": "TRL_KTO"}, "method.stage", "kto"),
        ({"training.trainer_kwargs": {"per_device_train_batch_size": 2}}, "batch.micro_batch_size", 2),
        ({"training.trainer_kwargs": {"activation_offloading": True}}, "offload.activations", "cpu"),
        ({"data.train.pack": True}, "sequence.length_is_bound", False),
        (ADAPTER, "method.kind", "lora"),
        (ADAPTER, "method.rank", 16),
        (ADAPTER, "method.targets", ("q_proj", "v_proj")),
        (ADAPTER, "method.dropout", 0.0),
        ({"peft.lora_r": 16}, "method.kind", "full"),  # the section alone trains no adapter
        ({"peft.q_lora": True}, "model.quantization.method", "none"),
        ({**ADAPTER, "peft.q_lora": True}, "model.quantization.bits", 4),
        ({**ADAPTER, "peft.q_lora": True}, "model.quantization.upcast_rest_to_fp32", True),
        ({**ADAPTER, "peft.q_lora": True, "peft.q_lora_bits": 8}, "model.quantization.bits", 8),
        ({"model.model_kwargs": {"rope_scaling": {"factor": 4.0}}}, "sequence.rope_scaling", "overridden"),
        (
            {"model.model_kwargs": {"num_hidden_layers": 2}},
            "stack.unmodelled",
            "a model with another `num_hidden_layers`",
        ),
        ({"training.trainer_type": "VERL_GRPO"}, "stack.unmodelled", "verl's trainer, started by Oumi"),
    ],
)
def test_keys(pairs: dict[str, Any], field: str, value: Any) -> None:
    assert get(read(pairs), field) == value


def test_a_file_without_a_length_is_as_long_as_its_data() -> None:
    value = changed({})
    del value["model"]["model_max_length"]
    run = run_of(parsed(value))
    assert run.sequence.length is UNKNOWN
    assert "model_max_length" in run.origins["sequence.length"].detail
    value["data"]["train"]["pack"] = True
    assert run_of(parsed(value)).sequence.length == 1024


def test_an_adapter_of_a_folder_is_not_known() -> None:
    assert read({"model.adapter_model": "out/lora"}).method.kind is UNKNOWN


def test_grpo_has_a_section_of_its_own() -> None:
    own = {"max_prompt_length": 512, "max_completion_length": 256, "num_generations": 4, "use_vllm": True}
    pairs = {"training.trainer_type": "TRL_GRPO", "training.grpo": {**own, "vllm_mode": "colocate"}}
    run = read(pairs, versions={"oumi": (0, 4)})
    assert (run.method.stage, run.method.num_generations) == ("grpo", 4)
    assert (run.sequence.max_prompt_length, run.sequence.max_new_tokens) == (512, 256)
    assert (run.rollout.generator, run.rollout.share) == ("vllm_colocate", 0.9)


def test_releases_are_those_that_oumi_takes() -> None:
    assert (read({}).stack.trl, read({}).stack.transformers) == ((1, 6), (5, 16))
    older = read({}, versions={"oumi": (0, 4, 2)})
    assert (older.stack.trl, older.stack.transformers) == ((0, 21), (4, 57))
    assert read({}, versions={"trl": (0, 19)}).stack.trl == (0, 19)


@pytest.mark.parametrize(
    ("field", "pointer"),
    [
        ("batch.micro_batch_size", ("training", "per_device_train_batch_size")),
        ("sequence.length", ("model", "model_max_length")),
        ("parallelism.zero.stage", ("deepspeed", "zero_stage")),
        ("parallelism.zero.sub_group_size", ("deepspeed", "sub_group_size")),
        ("offload.optimizer", ("deepspeed", "offload_optimizer", "device")),
    ],
)
def test_values_have_the_places_of_oumis_keys(field: str, pointer: tuple[str, ...]) -> None:
    engine = {"enable_deepspeed": True, "zero_stage": "ZERO_3", "offload_optimizer": {"device": "CPU"}}
    value = changed({"deepspeed": {**engine, "sub_group_size": 1000}})
    origin, at = run_of(parsed(value, gpus=4)).origins[field], place(document(value), pointer)
    assert at is not None
    assert (origin.pointer, origin.line, origin.column) == (pointer, at.value.line, at.value.column)


# -- engines -----------------------------------------------------------------------------------------


def test_deepspeed_gets_oumis_defaults() -> None:
    offload = {"deepspeed.offload_optimizer": {"device": "CPU"}, "deepspeed.sub_group_size": 1000}
    run = read({"deepspeed.enable_deepspeed": True, "deepspeed.zero_stage": "ZERO_3", **offload}, gpus=4)
    zero = run.parallelism.zero
    assert (run.parallelism.engine, zero.stage, zero.overlap_comm) == ("deepspeed", 3, False)
    assert (zero.reduce_bucket_size, zero.prefetch_bucket_size, zero.sub_group_size) == (500_000_000, 50_000_000, 1000)
    assert (run.offload.optimizer, run.offload.parameters) == ("cpu", "none")
    assert read({"deepspeed.zero_stage": "ZERO_3"}, gpus=4).parallelism.engine == "ddp"  # not enabled


def test_deepspeed_by_a_file() -> None:
    file = {"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}
    value = changed({"deepspeed.enable_deepspeed": True, "deepspeed.deepspeed_config_path": "ds.json"})
    run = run_of(oumi.parse(document(value), known(files={"ds.json": file}, gpus=4, gpus_per_node=4)))
    assert (run.parallelism.engine, run.parallelism.zero.stage) == ("deepspeed", 2)


@pytest.mark.parametrize(
    ("pairs", "field", "value"),
    [
        ({}, "parallelism.engine", "fsdp"),
        ({}, "parallelism.fsdp.version", 1),
        ({}, "parallelism.fsdp.wrap", "none"),
        ({}, "parallelism.fsdp.use_orig_params", True),
        (ADAPTER, "parallelism.fsdp.use_orig_params", False),
        ({"fsdp.auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}, "parallelism.fsdp.wrap", "transformer"),
        ({"fsdp.sharding_strategy": "SHARD_GRAD_OP"}, "parallelism.fsdp.strategy", "SHARD_GRAD_OP"),
        ({"fsdp.cpu_offload": True}, "parallelism.fsdp.cpu_offload", True),
        ({"training.enable_gradient_checkpointing": True}, "checkpointing.mode", "full"),
        ({"model.torch_dtype_str": "float32", "fsdp.mixed_precision": "bf16"}, "precision.autocast", True),
    ],
)
def test_fsdp(pairs: dict[str, Any], field: str, value: Any) -> None:
    assert get(read({"fsdp.enable_fsdp": True, **pairs}, gpus=4), field) == value


def test_figures_are_those_of_the_trainers_own_file() -> None:
    """A file of TRL's that says the same has the same peak."""
    flat = {
        "model_name_or_path": "some/model",
        "dtype": "bfloat16",
        "max_length": 2048,
        "output_dir": "output",
        "per_device_train_batch_size": 4,
        "gradient_checkpointing": False,
        "optim": "adamw_torch_fused",
        "bf16": False,
        "fp16": False,
        "use_peft": False,
        "learning_rate": 5e-5,
        "packing": False,
    }
    of_trl = run_of(trainer.parse(document(flat), known(gpus=1, versions={"trl": (1, 6), "transformers": (5, 16)})))
    mine, theirs = estimate(read({})), estimate(of_trl)
    assert mine.allocated_bytes == theirs.allocated_bytes
    assert mine.allocated_bytes is not None


# -- issues ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pairs", "code"),
    [
        ({"training.batch_size": 4}, "unknown-key"),
        ({"training.trainer_type": "trl_sft"}, "bad-value"),
        ({"training.per_device_train_batch_size": 0}, "bad-value"),
        ({"training.mixed_precision_dtype": "BF16"}, "conflict"),
        ({"model.compile": True}, "conflict"),
        ({"training.compile": True, "fsdp.enable_fsdp": True, "fsdp.use_orig_params": False}, "conflict"),
        ({"fsdp.enable_fsdp": True, "deepspeed.enable_deepspeed": True}, "conflict"),
        ({"deepspeed.enable_deepspeed": True, "deepspeed.train_batch_size": 32}, "conflict"),
        ({**ENABLED, "deepspeed.zero_stage": "ZERO_2", "deepspeed.offload_param": {"device": "CPU"}}, "conflict"),
        ({**ENABLED, "deepspeed.offload_optimizer": {"device": "CPU"}}, "conflict"),
        ({"training.eval_steps": 1.5}, "conflict"),
        ({"training.num_train_epochs": 0}, "conflict"),
        ({"model.torch_dtype_str": "bf17"}, "bad-value"),
        ({"training.save_steps": "often"}, "wrong-type"),
        ({"training.use_peft": "maybe"}, "wrong-type"),
        ({"training.use_peft": None}, "wrong-type"),
        ({"training.grpo": {"temperature": 1.5}}, "bad-value"),
        ({"mdel": {}}, "unknown-key"),
        ({"peft.lora_r": 16}, "ignored-key"),
        ({"fsdp.cpu_offload": True}, "ignored-key"),
        ({"deepspeed.zero_stage": "ZERO_3"}, "ignored-key"),
        ({"training.reward_functions": ["length"]}, "conflict"),
        ({"training.trainer_type": "TRL_GRPO", "training.include_performance_metrics": True}, "conflict"),
        ({"training.trainer_type": "VERL_GRPO"}, "conflict"),
        (
            {
                "training.trainer_type": "TRL_GRPO",
                "training.grpo": {"num_generations": 4},
                "training.trainer_kwargs": {"num_generations": 8},
            },
            "conflict",
        ),
    ],
)
def test_what_oumi_refuses(pairs: dict[str, Any], code: str) -> None:
    assert codes(parsed(changed(pairs))) == [code]


@pytest.mark.parametrize(
    "pairs",
    [
        {},
        ADAPTER,
        {"model.torch_dtype_str": "float32", "training.mixed_precision_dtype": "BF16"},
        {"deepspeed.enable_deepspeed": True, "deepspeed.zero_stage": "ZERO_3"},
        {"training.eval_steps": 0.5},
        {"training.run_name": 2026, "training.save_steps": "100", "training.compile": "yes"},
        {"deepspeed": {"enable_deepspeed": True, "zero_stage": "3", "offload_param": {"device": "cpu"}}},
        {"training.use_peft": False, "peft.lora_r": 16},  # switched off on purpose
        {"training.trainer_type": "TRL_GRPO", "training.reward_functions": ["length"]},
        {"training.trainer_type": "OUMI", "fsdp.enable_fsdp": True, "training.learning_rate": "3e-4"},
    ],
)
def test_what_oumi_takes(pairs: dict[str, Any]) -> None:
    assert codes(parsed(changed(pairs))) == []


# -- edits -------------------------------------------------------------------------------------------


QLORA = {
    "model.quantization.method": "bnb",
    "model.quantization.bits": 4,
    "model.quantization.kind": "nf4",
    "model.quantization.double_quant": True,
}
HALF_ADAPTER = {**ADAPTER, "model.torch_dtype_str": "bfloat16"}
SHARED_4_BITS = {
    "model.quantization.storage_dtype": "bfloat16",
    "parallelism.engine": "fsdp",
    "parallelism.fsdp.version": 1,
    "parallelism.fsdp.cpu_offload": True,
}


@pytest.mark.parametrize(
    ("pairs", "changes", "key", "value"),
    [
        ({}, {"batch.micro_batch_size": 1}, "training.per_device_train_batch_size", 1),
        ({}, {"batch.gradient_accumulation_steps": 8}, "training.gradient_accumulation_steps", 8),
        ({}, {"sequence.length": 512}, "model.model_max_length", 512),
        ({}, {"checkpointing.mode": "full"}, "training.enable_gradient_checkpointing", True),
        ({}, {"optimizer.name": "paged_adamw_8bit"}, "training.optimizer", "paged_adamw_8bit"),
        ({}, {"loss.kind": "liger"}, "model.enable_liger_kernel", True),
        ({}, {"method.kind": "lora", "method.rank": 16}, "training.use_peft", True),
        (ADAPTER, {"model.quantization.bits": 4}, "peft.q_lora", True),
        (ADAPTER, QLORA, "peft.bnb_4bit_quant_type", "nf4"),
        (HALF_ADAPTER, {**QLORA, **SHARED_4_BITS}, "fsdp.enable_fsdp", True),
        ({}, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3}, "deepspeed.zero_stage", "ZERO_3"),
        (
            {"deepspeed.enable_deepspeed": True, "deepspeed.zero_stage": "ZERO_3"},
            {"offload.optimizer": "cpu"},
            "deepspeed.offload_optimizer.device",
            "CPU",
        ),
    ],
)
def test_changes_are_written_and_read_back(
    pairs: dict[str, Any], changes: dict[str, Any], key: str, value: Any
) -> None:
    before = changed(pairs)
    found = parsed(before, gpus=2)
    edits = oumi.edits(found, found.runs[0], changes)
    assert edits is not None
    after = applied(before, edits, "train.json")
    inner = after
    for step in key.split("."):
        inner = inner[step]
    assert inner == value
    again = run_of(parsed(after, gpus=2))
    assert all(get(again, field) == wanted for field, wanted in changes.items())


@pytest.mark.parametrize(("dtype", "starts"), [("bfloat16", 1), ("auto", 0), ("float32", 0)])
def test_fsdp_shares_4_bits_of_a_model_in_the_dtype_that_stores_them(dtype: str, starts: int) -> None:
    before = changed({**ADAPTER, "model.torch_dtype_str": dtype})
    assert parsed(before, gpus=2).runs[0].planning.starts_fsdp == starts


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism.engine": "megatron"},
        {"sequence.packing": True},
        {"model.quantization.bits": 4},
        {"method.kind": "oft"},
    ],
)
def test_what_no_key_says_is_not_written(changes: dict[str, Any]) -> None:
    found = parsed(SFT, gpus=2)
    assert oumi.edits(found, found.runs[0], changes) is None
