"""Axolotl files: recognition, what each key means (axolotl 0.19.0 unless a release is named), releases."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.architectures import from_config
from memlint.architectures.model import Architecture, Resolution
from memlint.formats import recognise
from memlint.formats.axolotl import format as axolotl
from memlint.formats.axolotl.releases import RELEASES
from memlint.formats.name_patterns import bounded_pattern
from memlint.formats.schema.validate import compiled_schema
from memlint.hardware import find
from memlint.memory import estimate
from memlint.memory.state.storage import numel
from memlint.run import UNKNOWN, get
from tests.comparisons.families import members
from tests.formats.frameworks import ANYTHING, codes, context, document, run_of
from tests.memory.runs import TINY
from tests.pace import pace

PLAIN: dict[str, Any] = {
    "base_model": "some/model",
    "datasets": [{"path": "d", "type": "alpaca"}],
    "micro_batch_size": 2,
    "gradient_accumulation_steps": 4,
    "sequence_len": 2048,
    "learning_rate": 2e-4,
    "optimizer": "adamw_torch",
    "bf16": "auto",
}
LORA: dict[str, Any] = {**PLAIN, "adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_target_linear": True}
QLORA: dict[str, Any] = {**LORA, "adapter": "qlora", "load_in_4bit": True}
DPO: dict[str, Any] = {**PLAIN, "rl": "dpo"}
FSDP2: dict[str, Any] = {**PLAIN, "fsdp_version": 2, "fsdp_config": {"offload_params": False}}
LLAMA = from_config(TINY)
# Mixtures whose experts are one tensor in transformers 5 (models/mixtral/modeling_mixtral.py, MixtralExperts).
MIXTURE = from_config(
    {
        **TINY,
        "model_type": "qwen3_moe",
        "architectures": ["Qwen3MoeForCausalLM"],
        "num_experts": 8,
        "head_dim": 64,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 128,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
)
LIGER = {"plugins": ["axolotl.integrations.liger.LigerPlugin"]}
CUT = {"plugins": ["axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"]}


def parsed_of(value: Any, architecture: Architecture = LLAMA, files: dict[str, Any] | None = None, **more: Any) -> Any:
    def find_model(name: str, from_path: str) -> Resolution:
        return Resolution(name, "catalog", architecture)

    return axolotl.parse(document(value), context(files, **more)._replace(find_model=find_model))


def values(value: Any, *names: str, **more: Any) -> list[Any]:
    run = run_of(parsed_of(value, **more))
    return [get(run, name) for name in names]


@pytest.mark.parametrize(
    ("value", "claimed"),
    [
        (PLAIN, "axolotl"),
        (LORA, "axolotl"),
        ({"base_model": "m", "datasets": [], "sequence_len": 1, "adapter": "lora"}, "axolotl"),
        ({"base_model": "m", "datasets": [], "sequence_len": 1}, ""),
        # mergekit: `models` or `slices` with a merge method
        ({"base_model": "m", "merge_method": "ties", "models": [], "dtype": "bf16", "datasets": [], "bf16": True}, ""),
        ({"base_model": "m", "slices": [], "dtype": "bf16", "datasets": [], "adapter": "lora", "bf16": True}, ""),
        # Ludwig: `adapter` is a mapping
        ({"base_model": "m", "adapter": {"type": "lora"}, "optimizer": {}, "learning_rate": 1, "bf16": True}, ""),
        ({"base_model": "m", "input_features": [], "output_features": [], **PLAIN, "adapter": "lora"}, ""),
        # LLaMA-Factory, Trainer, torchtune
        ({"model_name_or_path": "m", "stage": "sft", "finetuning_type": "lora", "do_train": True}, "llamafactory"),
        ({"model_name_or_path": "m", "output_dir": "o", "bf16": True, "per_device_train_batch_size": 1}, "trainer"),
        (
            {"model": {"_component_": "torchtune.models.llama3"}, "batch_size": 2, "optimizer": {}, "dataset": {}},
            "torchtune",
        ),
        ({"base_model": "m"}, ""),
        # a run's results, of a program of the repository
        (
            {"base_model": "m", "micro_batch_size": 8, "gradient_accumulation_steps": 8, "learning_rate": 1e-5}
            | dict.fromkeys(("run_name", "train_examples", "steps", "loss_mask", "train", "eval", "notes", "dtype"), 1),
            "",
        ),
        # of a program with words of its own for its data and the samples' length
        (
            {"base_model": "m", "data": "d.jsonl", "max_seq_length": 4096, "num_epochs": 3, "batch_size": 4}
            | {"gradient_accumulation_steps": 4, "learning_rate": 2e-5, "lr_scheduler": "cosine", "output_dir": "o"}
            | {"lora_r": 16, "bf16": True, "gradient_checkpointing": True, "load_in_4bit": True},
            "",
        ),
        ({"base_model": ["m"], **{key: PLAIN[key] for key in PLAIN if key != "base_model"}}, ""),
        ([PLAIN], ""),
    ],
)
def test_recognised_by_keys(value: Any, claimed: str) -> None:
    found = recognise(document(value, "file.json"))
    assert (found[0].NAME if found else "") == claimed


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        # utils/schemas/{config,training}.py: defaults
        (
            {key: PLAIN[key] for key in ("base_model", "datasets", "learning_rate")},
            {
                "batch.micro_batch_size": 1,
                "batch.gradient_accumulation_steps": 1,
                "sequence.length": 512,
                "optimizer.name": "adamw_torch_fused",
                "checkpointing.mode": "none",
                "precision.autocast": True,
                "evaluation.enabled": False,
                "optimizer.max_grad_norm": 1.0,
                "stack.expandable_segments": True,
                "attention.implementation": "sdpa",
            },
        ),
        # loaders/model.py:288: AutoModelForTokenClassification
        ({**PLAIN, "process_reward_model": True}, {"method.drops_language_head": True, "stack.unmodelled": ""}),
        # utils/config/__init__.py:175: batch_size // micro_batch_size
        (
            {**PLAIN, "gradient_accumulation_steps": None, "batch_size": 16},
            {"batch.gradient_accumulation_steps": 8},
        ),
        # utils/config/__init__.py:173, resolve_dtype
        ({**PLAIN, "bf16": True}, {"model.weights_dtype": "bfloat16", "precision.compute": "bfloat16"}),
        ({**PLAIN, "bf16": None}, {"model.weights_dtype": "float32", "precision.autocast": False}),
        ({**PLAIN, "bf16": False, "fp16": True}, {"model.weights_dtype": "float16", "precision.autocast": True}),
        ({**PLAIN, "bf16": False, "float16": True}, {"model.weights_dtype": "float16", "precision.autocast": False}),
        ({**PLAIN, "bf16": False, "bfloat16": True}, {"model.weights_dtype": "bfloat16", "precision.autocast": True}),
        ({**PLAIN, "bf16": "full"}, {"model.weights_dtype": "bfloat16", "precision.autocast": False}),
        # loaders/model.py:440, _configure_embedding_dtypes; utils/schemas/config.py, attn_needs_dtype_cast
        (PLAIN, {"precision.embeddings_dtype": "float32"}),
        ({**PLAIN, "sdp_attention": True}, {"precision.embeddings_dtype": "float32"}),
        ({**PLAIN, "attn_implementation": "eager"}, {"precision.embeddings_dtype": "float32"}),
        ({**PLAIN, "flash_attention": True}, {"precision.embeddings_dtype": ""}),
        ({**PLAIN, "attn_implementation": "xformers"}, {"precision.embeddings_dtype": ""}),
        ({**PLAIN, **CUT}, {"precision.embeddings_dtype": "", "loss.kind": "cut"}),
        ({**PLAIN, **CUT, "cut_cross_entropy": False}, {"precision.embeddings_dtype": "float32", "loss.kind": "plain"}),
        (LORA, {"precision.embeddings_dtype": ""}),
        (FSDP2, {"precision.embeddings_dtype": ""}),
        ({**PLAIN, "fp8": True}, {"precision.fp8": "torchao"}),
    ],
)
def test_what_keys_mean(value: Any, fields: dict[str, Any]) -> None:
    run = run_of(parsed_of(value))
    assert {name: get(run, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("extra", "dtype"),
    [
        ({}, "float16"),
        ({"fp16": False}, "float32"),  # `if cfg.fp16 is None and not cfg.float16`
        ({"float16": True}, "float16"),
        ({"bfloat16": True}, "bfloat16"),
    ],
)
def test_a_card_without_bf16_decides_what_auto_means(extra: dict[str, Any], dtype: str) -> None:
    old = {"torch": (2, 2)}
    assert values({**LORA, **extra}, "model.weights_dtype", gpu=find("V100-32GB"), versions=old) == [dtype]


def test_a_card_that_emulates_bf16_has_it() -> None:
    """`is_bf16_supported()` of torch 2.3 and later counts emulation."""
    assert values(LORA, "model.weights_dtype", gpu=find("V100-32GB")) == ["bfloat16"]


@pytest.mark.parametrize(
    ("value", "weights", "embeddings", "rest", "bits"),
    [
        # loaders/model.py:1109 and :489: peft makes all fp32 that is not quantised; embeddings, head, norms come back
        (QLORA, "bfloat16", "bfloat16", True, 4),
        ({**LORA, "load_in_8bit": True}, "bfloat16", "bfloat16", True, 8),
        (LORA, "bfloat16", "", False, 16),
        # :799 quantises in 4 bits for qlora alone: this loads bf16 and makes it fp32
        ({**LORA, "load_in_4bit": True}, "float32", "bfloat16", False, 16),
        # is_qlora_and_fsdp_enabled, cpu_ram_efficient_loading
        ({**QLORA, "fsdp_config": {"auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}}, "bfloat16", "", False, 4),
        (
            {**LORA, "load_in_8bit": True, "fsdp_config": {"fsdp_cpu_ram_efficient_loading": True}},
            *("bfloat16", "", False, 8),
        ),
        ({**QLORA, "quantize_moe_experts": True}, "bfloat16", "", False, 4),
    ],
)
def test_what_preparing_for_few_bits_leaves(value: Any, weights: str, embeddings: str, rest: bool, bits: int) -> None:
    run = run_of(parsed_of(value))
    assert (run.model.weights_dtype, run.precision.embeddings_dtype) == (weights, embeddings)
    assert (run.model.quantization.upcast_rest_to_fp32, run.model.quantization.bits) == (rest, bits)


def test_deepspeed_makes_all_parameters_one_dtype() -> None:
    names = ("precision.embeddings_dtype", "model.weights_dtype", "precision.autocast")
    zero = {"zero_optimization": {"stage": 2}, "bf16": {"enabled": "auto"}}
    files = {"ds.json": zero}
    assert values({**PLAIN, "deepspeed": "ds.json"}, *names, files=files) == ["", "bfloat16", False]
    run = run_of(parsed_of({**QLORA, "deepspeed": zero}))
    assert not run.model.quantization.upcast_rest_to_fp32


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        # utils/config/__init__.py:392; core/builders/base.py:565
        ({**PLAIN, "gradient_checkpointing": True}, {"mode": "full", "reentrant": True, "offload": False}),
        ({**DPO, "gradient_checkpointing": True}, {"mode": "full", "reentrant": False}),
        (
            {**PLAIN, "gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
            {"mode": "full", "reentrant": False},
        ),
        ({**PLAIN, "gradient_checkpointing": True, "unfrozen_parameters": ["lm_head"]}, {"reentrant": False}),
        # validation.py:1575: `offload` is `activation_offloading`; loaders/model.py:368 wraps without adapters
        ({**PLAIN, "gradient_checkpointing": "offload"}, {"mode": "full", "offload": True, "reentrant": False}),
        ({**LORA, "gradient_checkpointing": "offload"}, {"mode": "full", "offload": True, "reentrant": True}),
        (
            {
                **PLAIN,
                "gradient_checkpointing": True,
                "activation_offloading": True,
                "gradient_checkpointing_kwargs": {"use_reentrant": True},
            },
            {"offload": True, "reentrant": False},
        ),
        (
            {**LORA, "gradient_checkpointing": True, "activation_offloading": "hidden_states"},
            {"mode": "full", "offload": True, "reentrant": False},
        ),
        (
            {**PLAIN, "gradient_checkpointing": True, "selective_checkpointing": True},
            {"mode": "selective"},
        ),
    ],
)
def test_checkpointing(value: Any, fields: dict[str, Any]) -> None:
    found = run_of(parsed_of(value)).checkpointing
    assert {name: getattr(found, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("extra", "enabled"),
    [
        ({}, False),
        ({"val_set_size": 0.1}, False),  # core/builders/base.py:461: neither steps nor a strategy
        ({"val_set_size": 0.1, "eval_steps": 10}, True),
        ({"val_set_size": 0.1, "evals_per_epoch": 4}, True),
        # utils/config/__init__.py:261: eval_steps is 1 / (1 * 1), which is not below 1
        ({"val_set_size": 0.1, "evals_per_epoch": 1}, False),
        ({"val_set_size": 0.1, "evals_per_epoch": 1, "num_epochs": 2}, True),
        ({"val_set_size": 0.1, "eval_strategy": "epoch"}, True),
        ({"val_set_size": 0.1, "evaluation_strategy": "epoch"}, True),
        ({"eval_steps": 10}, False),
        ({"val_set_size": 0, "eval_steps": 10}, False),
        ({"test_datasets": [{"path": "t"}], "eval_steps": 10}, True),
    ],
)
def test_evaluation_needs_a_set_and_a_time(extra: dict[str, Any], enabled: bool) -> None:
    assert values({**PLAIN, **extra}, "evaluation.enabled", "evaluation.batch_size") == [enabled, 2]
    assert values({**PLAIN, **extra, "eval_batch_size": 8}, "evaluation.batch_size") == [8]


def test_one_key_accumulates_in_training_and_evaluation() -> None:
    origins = run_of(parsed_of(PLAIN)).origins
    assert origins["evaluation.accumulation_steps"] == origins["batch.gradient_accumulation_steps"]
    assert values({**PLAIN, "rl": "dpo"}, "evaluation.accumulation_steps") == [None]


def test_every_linear_is_every_towers_too() -> None:
    vision = from_config({**members()["qwen2_5_vl"]})
    (targets,) = values(LORA, "method.targets", architecture=vision)
    assert {"q_proj", "qkv", "proj", "gate_proj"} <= set(targets)


def test_older_releases_evaluated_each_epoch() -> None:
    """core/trainer_builder.py at 0.9.2:441."""
    value = {**PLAIN, "val_set_size": 0.1}
    assert values(value, "evaluation.enabled", versions={"axolotl": (0, 9, 2)}) == [True]
    assert values(value, "evaluation.enabled", versions={"axolotl": (0, 10)}) == [False]


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ({}, {"packing": False, "length_is_bound": True}),
        ({"sample_packing": True}, {"packing": True, "neat_packing": True, "length_is_bound": False}),
        ({"sample_packing": True, "pad_to_sequence_len": False}, {"length_is_bound": True}),
        ({"pad_to_sequence_len": True}, {"packing": False, "length_is_bound": False}),
        ({"reward_model": True}, {"length_is_bound": False}),  # validation.py:240
        ({"sequence_len": 0}, {"length": UNKNOWN}),
        ({"sequence_len": "${LENGTH}"}, {"length": UNKNOWN}),
    ],
)
def test_sequences(extra: dict[str, Any], fields: dict[str, Any]) -> None:
    found = run_of(parsed_of({**PLAIN, **extra})).sequence
    assert {name: getattr(found, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("value", "stage", "reference"),
    [
        (PLAIN, "sft", "none"),
        ({**PLAIN, "pretraining_dataset": "c4", "max_steps": 10}, "pt", "none"),
        ({**PLAIN, "reward_model": True}, "rm", "none"),
        # train.py:124, core/builders/rl.py:77: DPO's trainer takes the second model, KTO's makes its own
        (DPO, "dpo", "copy"),
        ({**LORA, "rl": "dpo"}, "dpo", "shared"),
        ({**LORA, "rl": "dpo", "rl_adapter_ref_model": True}, "dpo", "copy"),
        ({**PLAIN, "rl": "ipo"}, "dpo", "copy"),
        ({**PLAIN, "rl": "kto", "remove_unused_columns": False}, "kto", "copy"),
        ({**PLAIN, "rl": "orpo"}, "orpo", "none"),
        ({**PLAIN, "rl": "simpo"}, "simpo", "none"),
        ({**PLAIN, "rl": "grpo"}, "grpo", "none"),  # trl: beta 0.0
        ({**PLAIN, "rl": "grpo", "trl": {"beta": 0.04}}, "grpo", "copy"),
        ({**LORA, "rl": "gdpo", "rl_beta": 0.1}, "grpo", "shared"),
    ],
)
def test_stages_and_their_references(value: Any, stage: str, reference: str) -> None:
    assert values(value, "method.stage", "method.reference_model") == [stage, reference]


def test_before_trl_0_17_grpo_held_to_its_reference_unasked() -> None:
    value = {**PLAIN, "rl": "grpo"}
    assert values(value, "method.reference_model", versions={"trl": (0, 16)}) == ["copy"]


def test_grpo_generates() -> None:
    value = {**LORA, "rl": "grpo", "trl": {"max_completion_length": 300, "num_generations": 4, "use_vllm": True}}
    names = ("sequence.max_new_tokens", "method.num_generations", "rollout.generator", "sequence.length")
    assert values(value, *names) == [300, 4, "vllm", UNKNOWN]
    value["trl"] = {"use_vllm": True, "vllm_mode": "colocate"}
    assert values(value, "rollout.generator", "rollout.share") == ["vllm_colocate", 0.9]


@pytest.mark.parametrize(
    ("extra", "kind", "kernels"),
    [
        ({}, "plain", False),
        ({"liger_fused_linear_cross_entropy": True}, "plain", False),  # no plug-in: no such key
        ({**LIGER, "liger_fused_linear_cross_entropy": True}, "liger", False),
        ({**LIGER, "liger_cross_entropy": True}, "fused_ce", False),
        ({**LIGER, "liger_rms_norm": True, "liger_glu_activation": True}, "plain", True),
        ({**LIGER, "liger_rms_norm": True}, "plain", False),
        (CUT, "cut", False),  # on unless switched off (integrations/cut_cross_entropy/args.py)
        ({**CUT, "rl": "dpo"}, "plain", False),
        ({**LIGER, "liger_fused_linear_cross_entropy": True, "rl": "kto"}, "plain", False),
        ({**CUT, "reward_model": True}, "plain", False),
    ],
)
def test_losses_are_plug_ins(extra: dict[str, Any], kind: str, kernels: bool) -> None:
    assert values({**PLAIN, **extra}, "loss.kind", "loss.liger_kernels") == [kind, kernels]


ALL = ("qkv", "o", "mlp")


@pytest.mark.parametrize(
    ("value", "groups"),
    [
        # utils/schemas/config.py:1976, check_auto_enable_lora_kernels
        (LORA, ALL),
        (QLORA, ALL),
        ({**LORA, "load_in_8bit": True}, ()),
        ({**LORA, "rl": "dpo"}, ()),
        ({**LORA, "trust_remote_code": True}, ()),
        ({**LORA, "lora_mlp_kernel": False}, ()),
        ({**LORA, "lora_qkv_kernel": True}, ("qkv",)),
        ({**LORA, "lora_embedding_kernel": True}, ()),
        ({**LORA, "fsdp_config": {"offload_params": True}}, ()),
        ({**LORA, "fsdp_version": 2, "fsdp_config": {"offload_params": True}}, ALL),
        ({**LORA, "fsdp_config": {"fsdp_version": 2}}, ()),  # its validator runs before the one that copies the version
    ],
)
def test_lora_kernels_are_on_where_they_can_be(value: Any, groups: tuple[str, ...]) -> None:
    assert values(value, "method.fused_adapters") == [groups]


@pytest.mark.parametrize(
    ("version", "groups"), [((0, 9), ALL), ((0, 9, 0), ()), ((0, 9, 1), ALL), ((0, 8, 1), ()), ((0, 19), ALL)]
)
def test_lora_kernels_are_automatic_since_0_9_1(version: tuple[int, ...], groups: tuple[str, ...]) -> None:
    assert values(LORA, "method.fused_adapters", versions={"axolotl": version}) == [groups]


def test_kernels_leave_mixtures_out_before_torch_2_9() -> None:
    assert values(LORA, "method.fused_adapters", architecture=MIXTURE, versions={"torch": (2, 8)}) == [()]
    assert values(LORA, "method.fused_adapters", architecture=MIXTURE) == [ALL]


@pytest.mark.parametrize(
    ("extra", "targets"),
    [
        ({"lora_target_linear": True}, ("down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj")),
        ({"lora_target_linear": False, "lora_target_modules": ["q_proj", "v_proj"]}, ("q_proj", "v_proj")),
        ({"lora_target_linear": False, "lora_target_modules": "all-linear"}, ("all-linear",)),
        (
            {"lora_target_linear": False, "lora_target_modules": r"model.layers.[\d]+.self_attn.(q|v)_proj"},
            ("self_attn.q_proj", "self_attn.v_proj"),
        ),
        (
            {"lora_target_linear": False, "lora_target_modules": r"model.text_model.layers.[\d]+.mlp.(up|down)_proj"},
            ("mlp.down_proj", "mlp.up_proj"),
        ),
        # one layer alone, or nothing: who knows
        ({"lora_target_linear": False, "lora_target_modules": r"model.layers.0.self_attn.q_proj"}, UNKNOWN),
        ({"lora_target_linear": False, "lora_target_modules": "(((a+)+)+)+$"}, UNKNOWN),
        ({"lora_target_linear": False, "lora_target_modules": "(unclosed"}, UNKNOWN),
    ],
)
def test_targets(extra: dict[str, Any], targets: Any) -> None:
    assert values({**LORA, **extra}, "method.targets") == [targets]


def test_a_pattern_of_the_language_models_layers_leaves_the_tower_frozen() -> None:
    pattern = {"lora_target_linear": False, "lora_target_modules": r"model.layers.[\d]+.self_attn.(q|v)_proj"}
    for extra, frozen in (({}, False), (pattern, True), ({"freeze_mm_modules": True}, True)):
        assert values({**LORA, **extra}, "method.freeze_vision_tower") == [frozen]


def test_stacked_experts_are_no_linear_layer() -> None:
    """loaders/adapter.py:51, find_all_linear_names: before transformers 5 each expert had linear layers."""
    attention = ("k_proj", "o_proj", "q_proj", "v_proj")
    assert values(LORA, "method.targets", architecture=MIXTURE) == [attention]
    with_gate = {**LORA, "lora_target_modules": ["gate_proj"]}
    assert values(with_gate, "method.targets", architecture=MIXTURE) == [("gate_proj", *attention)]
    assert values(LORA, "method.targets", architecture=MIXTURE, versions={"axolotl": (0, 13)}) == [("all-linear",)]


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ({}, {"kind": "lora", "rank": 16, "alpha": 32, "dropout": 0.0, "adapter_dtype": "float32"}),
        ({"lora_dropout": 0.05}, {"dropout": 0.05}),
        ({"peft_use_dora": True, "peft_use_rslora": True}, {"use_dora": True, "use_rslora": True}),
        ({"lora_modules_to_save": ["embed_tokens"]}, {"modules_to_save": ("embed_tokens",)}),
        (
            {"lora_target_parameters": ["mlp.experts.gate_up_proj"]},
            {"target_parameters": ("mlp.experts.gate_up_proj",)},
        ),
        ({"peft_layers_to_transform": [0, 1]}, {"layers_to_transform": (0, 1)}),
        ({"lora_rank_pattern": {"q_proj": 4}}, {"rank_pattern": (("q_proj", 4),)}),
        ({"peft_autocast_adapter_dtype": False}, {"adapter_dtype": "bfloat16"}),
        ({"lora_r": None, "lora_model_dir": "out"}, {"rank": UNKNOWN}),
        ({"lora_r": "${R}"}, {"rank": UNKNOWN}),
        ({"adapter": "llama-adapter"}, {"kind": UNKNOWN}),
        ({"adapter": "${ADAPTER}"}, {"kind": UNKNOWN}),
        ({"adapter": None}, {"kind": "full"}),
        (
            {"adapter": None, "unfrozen_parameters": ["^lm_head.weight$", "model.layers.[1-3]+.mlp.*"]},
            {"kind": "freeze"},
        ),
        # a decoder of other names (DBRX: transformer.blocks)
        ({"adapter": None, "unfrozen_parameters": ["transformer.blocks.[0-7].*"]}, {"kind": UNKNOWN}),
        ({"adapter": None, "unfrozen_parameters": ["(a*)*b"]}, {"kind": UNKNOWN}),
        # trl wraps the model and makes QLoRA's adapters bf16; under FSDP Axolotl does (core/builders/rl.py:331)
        ({"adapter": "qlora", "load_in_4bit": True, "rl": "dpo"}, {"adapter_dtype": "bfloat16"}),
        ({"rl": "dpo"}, {"adapter_dtype": "float32"}),
        ({"rl": "dpo", "fsdp_version": 2, "fsdp_config": {"offload_params": True}}, {"adapter_dtype": "bfloat16"}),
    ],
)
def test_methods(extra: dict[str, Any], fields: dict[str, Any]) -> None:
    method = run_of(parsed_of({**LORA, **extra})).method
    assert {name: getattr(method, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("adamw_bnb_8bit", "adamw_bnb_8bit"),
        ("ao_adamw_8bit", "adamw_torch_8bit"),
        ("ao_adamw_4bit", "adamw_torch_4bit"),
        ("muon", "muon"),
        ("optimi_adamw", "optimi_adamw"),
        ("${OPTIMIZER}", UNKNOWN),
    ],
)
def test_optimizers(name: str, read: Any) -> None:
    assert values({**PLAIN, "optimizer": name}, "optimizer.name") == [read]


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        # transformers pins what Axolotl leaves out (training_args.py, _process_fsdp_args); validation.py:1220 pins 1
        (
            {**PLAIN, "fsdp_config": {"offload_params": True}},
            {"version": 1, "cpu_offload": True, "wrap": "transformer"},
        ),
        (
            {**PLAIN, "fsdp": ["full_shard", "auto_wrap"]},
            {"version": 1, "strategy": "FULL_SHARD", "use_orig_params": True},
        ),
        ({**PLAIN, "fsdp": ["shard_grad_op"]}, {"strategy": "SHARD_GRAD_OP", "backward_prefetch": "NONE"}),
        (
            {**PLAIN, "fsdp_config": {"fsdp_version": 2, "reshard_after_forward": False}},
            {"version": 2, "strategy": "SHARD_GRAD_OP", "upcasts_trainable": False},
        ),
        # utils/schemas/fsdp.py: no such fields, so they are dropped
        (
            {**PLAIN, "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP", "backward_prefetch": "BACKWARD_PRE"}},
            {"strategy": "FULL_SHARD", "backward_prefetch": "NONE", "upcasts_trainable": True},
        ),
    ],
)
def test_fsdp(value: Any, fields: dict[str, Any]) -> None:
    found = run_of(parsed_of(value, gpus=8)).parallelism.fsdp
    assert {name: getattr(found, name) for name in fields} == fields


def test_before_0_13_fsdp_options_were_passed_on() -> None:
    value = {
        **PLAIN,
        "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP", "fsdp_backward_prefetch": "BACKWARD_PRE"},
    }
    names = ("parallelism.fsdp.strategy", "parallelism.fsdp.backward_prefetch")
    assert values(value, *names, versions={"axolotl": (0, 12)}) == ["SHARD_GRAD_OP", "BACKWARD_PRE"]


@pytest.mark.parametrize(
    ("extra", "gpus", "ranks", "group"),
    [
        ({"dp_shard_size": 4}, 8, 8, 4),  # what is left of the world are copies (utils/distributed.py:334)
        ({"dp_shard_size": 4, "dp_replicate_size": 2}, 8, 8, 4),
        ({"dp_replicate_size": 2}, 8, 8, 4),
        ({"dp_shard_size": 8}, 8, 8, 0),
        ({"dp_shard_size": 2, "tensor_parallel_size": 2, "context_parallel_size": 2}, 8, 2, 0),
        ({}, 8, 8, 0),
    ],
)
def test_groups_of_shards(extra: dict[str, Any], gpus: int, ranks: int, group: int) -> None:
    names = ("parallelism.data_parallel_size", "parallelism.fsdp.shard_group_size")
    assert values({**FSDP2, **extra}, *names, gpus=gpus) == [ranks, group]


def test_degrees_say_how_many_gpus_there_are() -> None:
    value = {**FSDP2, "dp_shard_size": 4, "tensor_parallel_size": 2}
    names = ("parallelism.world_size", "parallelism.tensor_parallel_size", "parallelism.data_parallel_size")
    assert values(value, *names) == [8, 2, 4]
    assert values(PLAIN, "parallelism.world_size") == [UNKNOWN]
    assert values({**FSDP2, "dp_shard_size": 1}, "parallelism.world_size") == [
        UNKNOWN
    ]  # shards over all that are there


def test_a_shipped_deepspeed_file_counts_where_it_is_not_there() -> None:
    parsed = parsed_of({**PLAIN, "deepspeed": "deepspeed_configs/zero3_bf16_cpuoffload_all.json"}, gpus=8)
    run = run_of(parsed)
    assert (run.parallelism.zero.stage, run.offload.parameters, run.offload.optimizer) == (3, "cpu", "cpu")
    assert "deepspeed" not in parsed.raw_places
    assert [(issue.severity, "ships" in issue.message) for issue in parsed.issues] == [("info", True)]
    other = parsed_of({**PLAIN, "deepspeed": "mine.json"}, gpus=8)
    assert run_of(other).parallelism.zero.stage is UNKNOWN


@pytest.mark.parametrize("value", [PLAIN, LORA, QLORA, DPO, FSDP2, {**PLAIN, **LIGER, **CUT}])
def test_what_they_take(value: Any) -> None:
    assert codes(parsed_of(value), "error") == []


def test_keys_of_a_plug_in_need_it() -> None:
    issues = parsed_of({**PLAIN, "liger_rms_norm": True}).issues
    assert [(issue.code, issue.pointer) for issue in issues] == [("ignored-key", ("liger_rms_norm",))]
    assert not parsed_of({**PLAIN, **LIGER, "liger_rms_norm": True}).issues


def test_placeholders_are_not_read() -> None:
    parsed = parsed_of({**LORA, "lora_r": "${LORA_R}", "micro_batch_size": "$BATCH"})
    assert codes(parsed) == ["interpolation", "interpolation"]
    run = run_of(parsed)
    assert [get(run, name) for name in ("batch.micro_batch_size", "method.rank")] == [UNKNOWN, UNKNOWN]
    assert run.origins["batch.micro_batch_size"].detail == "`micro_batch_size` is a placeholder"


@pytest.mark.parametrize("value", ["two", "{{ batch }}", 0, -1, [2]])
def test_what_is_no_size_is_said_by_its_own_name(value: Any) -> None:
    parsed = parsed_of({**PLAIN, "micro_batch_size": value})
    run = run_of(parsed)
    assert run.batch.micro_batch_size is UNKNOWN
    assert run.origins["batch.micro_batch_size"].detail.startswith("`micro_batch_size: ")
    assert [issue.pointer for issue in parsed.issues] == [("micro_batch_size",)]


@pytest.mark.parametrize(
    ("value", "versions", "found"),
    [
        (PLAIN, {}, {"framework_version": (0, 19), "transformers": (5, 16), "accelerate": (1, 13)}),
        (PLAIN, {"axolotl": (0, 12)}, {"framework_version": (0, 12, 2), "transformers": (4, 55), "trl": (0, 21)}),
        (PLAIN, {"axolotl": (0, 12, 0)}, {"framework_version": (0, 12, 0), "transformers": (4, 55)}),
        (
            PLAIN,
            {"axolotl": (0, 12), "transformers": (4, 57)},
            {"framework_version": (0, 12, 2), "transformers": (4, 57)},
        ),
        # each release pins its transformers, so that a stated one tells the release and the rest of its stack
        (
            PLAIN,
            {"transformers": (4, 55, 4)},
            {"framework_version": (0, 12, 2), "transformers": (4, 55, 4), "accelerate": (1, 10)},
        ),
        (PLAIN, {"transformers": (4, 56)}, {"framework_version": (0, 12, 2), "transformers": (4, 56)}),
        (PLAIN, {"transformers": (4, 30)}, {"framework_version": (0, 4), "transformers": (4, 30)}),
        (PLAIN, {"axolotl": (0, 1)}, {"framework_version": (0, 1), "transformers": (4, 37)}),
        # a value that later releases refuse
        ({**PLAIN, "unsloth_lora_mlp": True}, {}, {"framework_version": (0, 16, 1), "transformers": (5, 5)}),
        ({**PLAIN, "max_packed_sequence_len": 2048}, {}, {"framework_version": (0, 4), "torch": (2, 1)}),
        ({**PLAIN, "max_packed_sequence_len": None}, {}, {"framework_version": (0, 19)}),
        # an unknown key is ignored: no evidence
        ({**PLAIN, "gptq_groupsize": 128}, {}, {"framework_version": (0, 19)}),
        ({**PLAIN, "unsloth_lora_mlp": True}, {"axolotl": (0, 18)}, {"framework_version": (0, 18)}),
    ],
)
def test_versions(value: Any, versions: dict[str, Any], found: dict[str, Any]) -> None:
    stack = run_of(parsed_of(value, versions=versions)).stack
    assert {name: getattr(stack, name) for name in found} == found


def test_releases_are_one_row_each_newest_first() -> None:
    minors = [release.version[:2] for release in RELEASES]
    assert minors == [(0, minor) for minor in range(21, 3, -1)]
    for older, newer in zip(RELEASES[1:], RELEASES):
        assert older.newest["transformers"] <= newer.newest["transformers"]
        assert older.newest["torch"] <= newer.newest["torch"]


def test_4_0_neither_expands_segments_nor_reenters() -> None:
    names = ("stack.expandable_segments", "checkpointing.reentrant")
    value = {**PLAIN, "gradient_checkpointing": True}
    assert values(value, *names, versions={"axolotl": (0, 4)}) == [False, False]
    assert values(value, *names, versions={"axolotl": (0, 5)}) == [True, True]


KEYS = sorted(compiled_schema("axolotl.json").schema["properties"])


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=12), st.booleans())
@settings(max_examples=400, deadline=None)
def test_parse_never_raises(value: dict[str, Any], based: bool) -> None:
    parsed = parsed_of({**LORA, **value} if based else value)
    assert parsed.format == "axolotl"


HOSTILE: list[Any] = [10**400, -(10**400), 1e308, float("inf"), "9" * 5000, [[[[]]]], {"a": {"b": [{}]}}, "\0", True]
READ = sorted({*LORA, *QLORA, *FSDP2, "trl", "vllm", "plugins", "deepspeed", "val_set_size", "num_epochs", "fsdp"})


@pytest.mark.parametrize("key", READ)
def test_hostile_values(key: str) -> None:
    for value in HOSTILE:
        parsed_of({**QLORA, **FSDP2, "rl": "grpo", key: value}, gpus=8)


@pytest.mark.parametrize("key", ["lora_target_modules", "unfrozen_parameters"])
@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(.*)*x", "(?:a|a)*b", "a?" * 200 + "a" * 200, "(" * 5000, "[a-z]+" * 60 + "!", "\\", "^(?=.*)+"],
)
def test_patterns_that_could_take_forever_do_not(key: str, pattern: str) -> None:
    value: Any = [pattern] if key == "unfrozen_parameters" else pattern
    started = time.perf_counter()
    parsed_of(
        {**LORA, "lora_target_linear": False, "adapter": None if key != "lora_target_modules" else "lora", key: value}
    )
    assert time.perf_counter() - started < 2 * pace()


@given(st.text(alphabet="a.*+?()[]{}|^$\\d1,", max_size=40))
@settings(max_examples=300, deadline=None)
def test_a_bounded_pattern_ends(pattern: str) -> None:
    compiled = bounded_pattern(pattern)
    if compiled is not None:
        started = time.perf_counter()
        compiled.match("a" * 200 + "!")
        compiled.fullmatch("model.layers.0.self_attn.q_proj")
        assert time.perf_counter() - started < 2


NOT_REENTRANT = {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
SCOUT = MIXTURE._replace(family="llama4")
LINEARIZED = {"llama4_linearized_experts": True, "base_model": "some/Scout-Linearized", "lora_target_linear": False}
KERNELS = {"plugins": ["axolotl.integrations.kernels.KernelsPlugin"]}
SCATTERMOE = {**KERNELS, "use_scattermoe": True}
EIGHT_BITS = {"adapter": "lora", "load_in_4bit": False, "load_in_8bit": True}


@pytest.mark.parametrize(
    ("extra", "architecture", "says"),
    [
        ({}, LLAMA, ""),
        ({"quantize_moe_experts": True}, MIXTURE, ""),
        ({"quantize_moe_experts": True, "fsdp_config": {"fsdp_version": 2}}, MIXTURE, ""),
        ({"quantize_moe_experts": True, "fsdp_config": {"fsdp_version": 1}}, MIXTURE, "divide packed experts"),
        ({"quantize_moe_experts": True, "deepspeed": "deepspeed_configs/zero2.json"}, MIXTURE, ""),
        ({"quantize_moe_experts": True, "deepspeed": "deepspeed_configs/zero3.json"}, MIXTURE, "divide packed experts"),
        (SCATTERMOE, MIXTURE, ""),
        (
            {**SCATTERMOE, "quantize_moe_experts": True, "lora_target_parameters": ["mlp.experts.down_proj"]},
            MIXTURE,
            "",
        ),
        ({**SCATTERMOE, "expert_parallel_size": 2}, MIXTURE, "spread over GPUs"),
        ({**SCATTERMOE, **EIGHT_BITS, "quantize_moe_experts": True}, MIXTURE, "8 bits"),
        ({**SCATTERMOE, "moe_bnb_fast": False}, MIXTURE, "unpacked in chunks"),
        ({**KERNELS, "expert_backend": "sonicmoe"}, MIXTURE, "SonicMoE"),
        ({"expert_backend": "sonicmoe"}, MIXTURE, ""),
        ({**KERNELS, "experts_implementation": "deep_ep"}, MIXTURE, "deep_ep"),
        ({"use_scattermoe": True}, MIXTURE, ""),  # a key of a plug-in that is not listed
        ({"quantize_moe_experts": True, "trust_remote_code": True}, MIXTURE, "may be no stacks"),
        ({"quantize_moe_experts": True, "lora_target_parameters": ["mlp.experts.down_proj"]}, MIXTURE, "make whole"),
        ({"quantize_moe_experts": True, **NOT_REENTRANT}, MIXTURE, ""),
        # Axolotl's own hooks of 8 bits do not run where a recomputation stops early
        ({"quantize_moe_experts": True, **NOT_REENTRANT, **EIGHT_BITS}, MIXTURE, "cached for good"),
        ({"quantize_moe_experts": True, **EIGHT_BITS, "gradient_checkpointing": True}, MIXTURE, ""),
        ({**LINEARIZED}, SCOUT, ""),
        ({**LINEARIZED, "lora_target_linear": True}, SCOUT, "llama4_linearized_experts"),
        ({**LINEARIZED, "fsdp_config": {"fsdp_version": 2}}, SCOUT, "llama4_linearized_experts"),
        ({**LINEARIZED, "base_model": "some/Scout"}, SCOUT, "llama4_linearized_experts"),
        ({"plugins": ["axolotl.integrations.expert_offload.ExpertOffloadPlugin"]}, MIXTURE, "ExpertOffloadPlugin"),
        ({"peft_trainable_token_indices": [1]}, LLAMA, "peft_trainable_token_indices"),
        ({}, MIXTURE._replace(family="kimi_linear"), "quantised one by one"),
        ({"trust_remote_code": True}, MIXTURE, ""),
        ({"plugins": ["axolotl.integrations.spectrum.SpectrumPlugin"]}, LLAMA, "SpectrumPlugin"),
    ],
)
def test_what_nobody_counted_is_said(extra: dict[str, Any], architecture: Architecture, says: str) -> None:
    (found,) = values({**QLORA, **extra}, "stack.unmodelled", architecture=architecture)
    assert says in found if says else found == ""


@pytest.mark.parametrize("extra", [{"deepspeed": "zero3.json"}, {"lora_target_parameters": ["mlp.experts.down_proj"]}])
def test_packed_experts_are_the_least_that_experts_may_be(extra: dict[str, Any]) -> None:
    """Packed, and divided as far as an engine may divide: what is unpacked or whole comes on top."""
    added = values({**QLORA, **extra, "quantize_moe_experts": True}, "stack.unmodelled_adds", architecture=MIXTURE)
    assert added == [True]


@pytest.mark.parametrize(
    ("extra", "kernel"),
    [
        (SCATTERMOE, "scattermoe"),
        ({**KERNELS, "expert_backend": "scattermoe"}, "scattermoe"),
        ({"use_scattermoe": True}, ""),
        ({**SCATTERMOE, "use_scattermoe": False}, ""),
    ],
)
def test_scattermoe_runs_the_experts_where_its_plug_in_is_listed(extra: dict[str, Any], kernel: str) -> None:
    assert values({**QLORA, **extra}, "stack.expert_kernel", architecture=MIXTURE) == [kernel]


def test_scattermoe_of_older_releases_has_no_figure() -> None:
    parsed = parsed_of({**QLORA, **SCATTERMOE}, MIXTURE, gpus=1, versions={"axolotl": (0, 18)})
    assert "before Axolotl 0.19" in run_of(parsed).stack.unmodelled


@pytest.mark.parametrize(
    ("extra", "known"),
    [
        ({"use_sonicmoe": True}, True),
        ({"qat": {"weight_dtype": "int4"}}, True),
        ({"lisa_n_layers": 2}, False),
        ({"lisa_n_layers": 2, "use_sonicmoe": True}, False),  # whichever the report names
        ({"layer_offloading": True, "use_sonicmoe": True}, False),
        ({"plugins": ["axolotl.integrations.kd.KDPlugin"]}, True),
    ],
)
def test_the_model_state_is_a_floor_where_nothing_takes_from_it(extra: dict[str, Any], known: bool) -> None:
    found = estimate(run_of(parsed_of({**QLORA, **extra}, MIXTURE, gpus=1)))
    assert found.allocated_bytes is None
    assert bool(found.allocated_low_bytes) == known


@pytest.mark.parametrize(
    ("name", "severity"),
    [("deepspeed/zero3.json", "info"), ("axolotl/deepspeed/zero2.json", "info"), ("deepspeed/mine.json", "warning")],
)
def test_a_file_that_axolotl_shipped_once_is_no_error(name: str, severity: str) -> None:
    parsed = parsed_of({**PLAIN, "deepspeed": name}, gpus=8)
    assert [issue.severity for issue in parsed.issues if issue.code == "missing-reference"] == [severity]
    assert parsed.runs[0].parallelism.zero.stage is UNKNOWN  # other releases have other files of that name


@pytest.mark.parametrize(("value", "found"), [(None, []), (True, ["removed-key"])])
def test_a_key_that_is_gone_says_nothing_without_a_value(value: bool | None, found: list[str]) -> None:
    assert [issue.code for issue in parsed_of({**PLAIN, "debug": value}).issues] == found


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ({}, ""),
        ({"axolotl": (0, 18)}, "cached for good"),  # pins bitsandbytes 0.49.1
        ({"axolotl": (0, 16)}, ""),  # reentrant
        ({"axolotl": (0, 15)}, "faster than they are packed"),  # pins transformers 5.3.0
        ({"axolotl": (0, 14)}, ""),  # knows no such key
    ],
)
def test_experts_packed_by_other_releases(versions: dict[str, tuple[int, ...]], says: str) -> None:
    more = {"gradient_checkpointing": True} if versions == {"axolotl": (0, 16)} else NOT_REENTRANT
    value = {**QLORA, **more, "quantize_moe_experts": True}
    run = run_of(parsed_of(value, MIXTURE, versions=versions))
    assert says in run.stack.unmodelled if says else run.stack.unmodelled == ""
    assert run.model.quantization.experts_on_load == (versions != {"axolotl": (0, 14)})


@pytest.mark.parametrize(
    ("family", "extra", "skipped"),
    [
        ("llama", {}, ()),
        ("falcon_h1", {}, ("out_proj",)),
        ("falcon_h1", {"adapter": "lora", "load_in_4bit": False, "load_in_8bit": True}, ("out_proj",)),
        ("jamba", {}, ()),
        ("jamba", {"adapter": "lora", "load_in_4bit": False, "load_in_8bit": True}, ("mamba",)),
        ("llama", {"bnb_config_kwargs": {"llm_int8_skip_modules": ["lm_head", "q_proj"]}}, ("lm_head", "q_proj")),
    ],
)
def test_modules_left_as_they_are(family: str, extra: dict[str, Any], skipped: tuple[str, ...]) -> None:
    architecture = LLAMA._replace(family=family)
    assert run_of(parsed_of({**QLORA, **extra}, architecture)).model.quantization.skipped == skipped


def test_whoever_names_what_to_skip_has_the_head_quantised() -> None:
    """transformers adds the head to what it skips by itself where nothing is named."""
    sizes = {}
    for name in ("", "no_such_layer", "lm_head"):
        extra = {"bnb_config_kwargs": {"llm_int8_skip_modules": [name]}} if name else {}
        found = estimate(run_of(parsed_of({**QLORA, **extra}, gpus=1)))
        sizes[name] = found.phases[1].components["weights"]
    head = TINY["vocab_size"] * TINY["hidden_size"]
    assert sizes[""] == sizes["lm_head"] > sizes["no_such_layer"] + head


QUERY_AND_VALUE = ("self_attn.q_proj", "self_attn.v_proj")
HYBRID = from_config(
    {
        "model_type": "qwen3_5_text",
        "hidden_size": 96,
        "intermediate_size": 224,
        "num_hidden_layers": 8,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "vocab_size": 352,
    }
)


@pytest.mark.parametrize(
    ("pattern", "targets"),
    [
        # attention stands in every fourth layer alone, MLPs in all
        (r".*\.layers\.(3|7)\.self_attn\.(q|v)_proj|.*\.mlp\.up_proj", ("mlp.up_proj", *QUERY_AND_VALUE)),
        (r"model.layers.[\d]+.self_attn.(q|v)_proj", QUERY_AND_VALUE),
        (r".*\.layers\.3\.self_attn\.(q|v)_proj", UNKNOWN),  # one of two
        (r".*\.layers\.(0|1)\.mlp\.up_proj", UNKNOWN),
        (r".*\.layers\.3\.no_such_layer", UNKNOWN),
    ],
)
def test_a_pattern_is_asked_of_every_layer(pattern: str, targets: object) -> None:
    value = {**LORA, "lora_target_linear": False, "lora_target_modules": pattern}
    assert values(value, "method.targets", architecture=HYBRID) == [targets]


SPARSE = from_config({**TINY, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2})


def test_a_mixtures_names_are_its_releases() -> None:
    """transformers 5 calls Mixtral's `block_sparse_moe` `mlp`."""
    value = {**PLAIN, "unfrozen_parameters": ["model.layers.[1-9]+.block_sparse_moe.gate"]}
    before, after = (
        run_of(parsed_of(value, SPARSE, versions={"transformers": one}, gpus=1)) for one in ((4, 57), (5, 16))
    )
    gates = (TINY["num_hidden_layers"] - 1) * 4 * TINY["hidden_size"]
    assert (before.method.kind, estimate(before).trainable_parameters) == ("freeze", gates)
    assert after.method.kind is UNKNOWN
    assert "calls `block_sparse_moe` `mlp`" in after.origins["method.kind"].detail


def test_layers_are_named_where_their_family_has_them() -> None:
    config = {"model_type": "dbrx", "d_model": 64, "n_heads": 4, "n_layers": 12, "max_seq_len": 128, "vocab_size": 96}
    config |= {"attn_config": {"kv_n_heads": 2}, "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4}}
    architecture = from_config(config)
    value = {**PLAIN, "unfrozen_parameters": ["transformer.blocks.[0-7]."]}
    found = estimate(run_of(parsed_of(value, architecture, gpus=1)))
    layer = sum(numel(weight.shape) * weight.copies for weight in architecture.layer_types[0].weights)
    assert found.trainable_parameters == 8 * layer


ZERO_BF16 = {"deepspeed": {"zero_optimization": {"stage": 2}, "bf16": {"enabled": True}}}


@pytest.mark.parametrize(
    ("extra", "tiles"),
    [
        ({}, 0),
        ({"tiled_mlp": True}, -(-1024 // TINY["hidden_size"])),
        ({"tiled_mlp": True, "tiled_mlp_num_shards": 7}, 7),
    ],
)
def test_tiled_mlps_are_bounded_in_checkpointed_full_fine_tuning(extra: dict[str, Any], tiles: int) -> None:
    value = {**PLAIN, **ZERO_BF16, "gradient_checkpointing": True, "sequence_len": 512, "micro_batch_size": 2, **extra}
    run = run_of(parsed_of(value))
    assert (run.checkpointing.mlp_tiles, run.stack.unmodelled) == (tiles, "")


FSDP2_HALF = {"fsdp_version": 2, "fsdp_config": {"offload_params": False}, "bf16": True}


@pytest.mark.parametrize(
    "value",
    [
        {**PLAIN, "bf16": True},
        {**PLAIN, **FSDP2_HALF},
        {**LORA, "lora_mlp_kernel": False, "lora_target_modules": ["q_proj", "up_proj"]},
    ],
)
def test_tiled_mlps_are_bounded_under_autocast_and_with_adapters(value: dict[str, Any]) -> None:
    run = run_of(parsed_of({**value, "gradient_checkpointing": True, "tiled_mlp": True, "sequence_len": 512}))
    assert run.checkpointing.mlp_tiles > 0
    assert run.stack.unmodelled == ""


def test_a_kernel_of_adapted_mlps_takes_the_place_of_tiles() -> None:
    adapted = {**LORA, "lora_mlp_kernel": True, "lora_target_modules": ["gate_proj", "up_proj", "down_proj"]}
    run = run_of(parsed_of({**adapted, "gradient_checkpointing": True, "tiled_mlp": True}))
    assert "mlp" in run.method.fused_adapters
    assert (run.checkpointing.mlp_tiles, run.stack.unmodelled) == (0, "")


@pytest.mark.parametrize("value", [PLAIN, {**PLAIN, **ZERO_BF16}])
def test_other_tiled_mlps_are_unknown(value: dict[str, Any]) -> None:
    assert "tiled MLPs" in values({**value, "tiled_mlp": True}, "stack.unmodelled")[0]


def test_a_loss_in_chunks_lies_between_a_fused_and_a_plain_one() -> None:
    plain, chunks = (
        estimate(run_of(parsed_of({**PLAIN, **extra}, gpus=1))) for extra in ({}, {"chunked_cross_entropy": True})
    )
    assert chunks.allocated_bytes == plain.allocated_bytes
    assert (chunks.allocated_low_bytes or 0) < (plain.allocated_low_bytes or plain.allocated_bytes or 0)


def test_inference_trains_nothing() -> None:
    """cli/inference.py:61-72 and 132: the model on one card, 1,024 new tokens at most."""
    run = run_of(parsed_of({**LORA, "inference": True}, gpus=4))
    assert (run.purpose, run.method.kind, run.parallelism.engine) == ("inference", "none", "single")
    assert (run.batch.micro_batch_size, run.sequence.max_new_tokens) == (1, 1024)
    assert run_of(parsed_of({**LORA, "inference": False})).purpose == "train"


@pytest.mark.parametrize(("written", "tf32"), [(True, True), (False, False), ("auto", False)])
def test_tf32_is_read(written: Any, tf32: bool) -> None:
    """core/builders/base.py:272; `auto` asks the card and raises nowhere (utils/schemas/config.py:1839)."""
    assert values({**PLAIN, "tf32": written}, "precision.tf32")[0] is tf32


@pytest.mark.parametrize("key", ["overrides_of_model_config", "model_config"])
@pytest.mark.parametrize(
    ("entries", "is_known"),
    [({"hidden_size": 1024, "num_hidden_layers": 16}, False), ({"output_router_logits": True}, True)],
)
def test_a_model_that_the_file_resizes_is_not_the_one_that_it_names(
    key: str, entries: dict[str, Any], is_known: bool
) -> None:
    """axolotl 0.12.2 loaders/utils.py:188; its name says nothing of its size either."""
    model = parsed_of({**PLAIN, key: entries}).runs[0].model
    assert (model.architecture is not UNKNOWN) is is_known
    assert (model.name is not UNKNOWN) is is_known


@pytest.mark.parametrize(("release", "version"), [((), 1), ((0, 19), 1), ((0, 20), 2), ((0, 21), 2)])
def test_fsdp_is_version_2_alone_since_0_20(release: tuple[int, ...], version: int) -> None:
    """0.20.0 utils/schemas/config.py, fsdp_version; what asks for FSDP1 is refused (rule AXO103)."""
    value = {**PLAIN, "fsdp_config": {"offload_params": True}}
    (run,) = parsed_of(value, versions={"axolotl": release} if release else {}).runs
    assert run.parallelism.fsdp.version == version
