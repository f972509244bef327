"""A planned run is the run that its file says, in what the frameworks make of a change beside the change."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from memlint.fixes.moves.hardware import advice
from memlint.fixes.plan_options import options
from memlint.fixes.plan_search import PlanSearch, SearchHooks
from memlint.fixes.written_plans import WrittenPlan, edit_writer, written
from memlint.formats.accelerate.edits import started_fsdp
from memlint.memory import estimate
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
OUMI = {
    "model": {"model_name": "meta-llama/Meta-Llama-3-8B", "model_max_length": 2048, "torch_dtype_str": "bfloat16"},
    "data": {"train": {"datasets": [{"dataset_name": "d"}]}},
    "training": {
        "trainer_type": "TRL_SFT",
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 4,
        "learning_rate": 2e-5,
    },
}
OUMI_UNDER_FSDP = OUMI | {"fsdp": {"enable_fsdp": True, "auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}}
OUMI_IN_HALF = OUMI | {
    "model": {"model_name": "Qwen/Qwen2.5-32B", "model_max_length": 2048, "torch_dtype_str": "bfloat16"},
    "training": {**OUMI["training"], "use_peft": True, "enable_gradient_checkpointing": True},
}
OUMI_ON_QLORA = {"use_peft": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}}
AUTOTRAIN = {
    "task": "llm-sft",
    "base_model": "meta-llama/Meta-Llama-3-8B",
    "project_name": "p",
    "log": "none",
    "backend": "local",
    "data": {"path": "d", "train_split": "t", "valid_split": None, "chat_template": None, "column_mapping": {}},
    "params": {"block_size": 2048, "batch_size": 2, "mixed_precision": "bf16", "lr": 2e-5},
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
    "packed experts": (
        AXOLOTL
        | {"base_model": "mistralai/Mixtral-8x7B-v0.1", "adapter": "qlora", "load_in_4bit": True, "lora_r": 16}
        | {"lora_alpha": 32, "lora_target_linear": True},
        "L40S",
        1,
    ),
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
    "a section of DeepSpeed in Oumi": (OUMI, "A100-40GB", 4),
    "adapters of Oumi": (OUMI, "RTX4090", 1),
    "adapters of AutoTrain": (AUTOTRAIN, "RTX4090", 1),
    "adapters of AutoTrain on blocks of text": (
        AUTOTRAIN | {"task": "llm-generic", "params": {"batch_size": 2, "block_size": 2048}},
        "L40S",
        1,
    ),
    "4 bits in place of AutoTrain's 8": (
        AUTOTRAIN | {"params": {"peft": True, "quantization": "int8", "batch_size": 8, "block_size": 2048}},
        "RTX3060",
        1,
    ),
    "4-bit weights of Oumi that FSDP shares": (OUMI_IN_HALF, "L40S", 4),
    "recomputation by accelerate": (OUMI_UNDER_FSDP, "RTX4090", 4),
    "a model that Oumi prepares, under ZeRO": (
        OUMI
        | {"model": {"model_name": "meta-llama/Meta-Llama-3-70B", "model_max_length": 1024}}
        | {"training": {**OUMI["training"], **OUMI_ON_QLORA}, "peft": {"q_lora": True}},
        "A100-40GB",
        4,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_file_of_a_plan_is_the_planned_run(name: str) -> None:
    found = _options(*CASES[name])
    assert found
    for one in found:
        assert read_otherwise(one) == (), [step.title for step in one.plan.steps]


def _options(
    config: dict[str, Any], card: str, gpus: int, versions: dict[str, tuple[int, ...]] | None = None
) -> tuple[WrittenPlan, ...]:
    files = {"train.yaml": yaml.safe_dump(config, sort_keys=False)}
    case = Case(0, card, "", "", files, {}, gpus, versions or {})
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


ON_QLORA = ON_LORA | {"base_model": "meta-llama/Meta-Llama-3-70B", "adapter": "qlora", "load_in_4bit": True}
LARGE = {"model_name_or_path": "meta-llama/Meta-Llama-3-70B"}
IN_4_BITS: dict[str, dict[str, Any]] = {
    "Axolotl": AXOLOTL | ON_QLORA,
    "Axolotl, preferences": AXOLOTL | ON_QLORA | {"rl": "dpo", "optimizer": "paged_adamw_8bit"},
    "LLaMA-Factory": LLAMA_FACTORY | LARGE | {"finetuning_type": "lora", "quantization_bit": 4, "bf16": True},
    "LLaMA-Factory, fp16": LLAMA_FACTORY | LARGE | {"finetuning_type": "lora", "quantization_bit": 4, "fp16": True},
    "TRL": TRL | LARGE | {"use_peft": True, "load_in_4bit": True},
    "TRL, supervised": {key: TRL[key] for key in TRL if key not in ("beta", "max_prompt_length")}
    | LARGE
    | {"use_peft": True, "load_in_4bit": True, "optim": "adamw_bnb_8bit"},
}


IN_HALF = {"load_in_4bit": None, "quantization_bit": None, "adapter": "lora"}


@pytest.mark.parametrize("packed", [True, False], ids=["in 4 bits", "in half precision"])
@pytest.mark.parametrize("release", [(4, 57, 6), (5, 8), (5, 23)], ids=str)
@pytest.mark.parametrize("name", IN_4_BITS)
def test_4_bit_weights_under_fsdp_are_planned_as_they_are_read(
    name: str, release: tuple[int, ...], packed: bool
) -> None:
    """Weights that are in 4 bits, and those of adapters' base in half precision that become so in the same plan."""
    config = IN_4_BITS[name]
    if not packed:
        config = config | {key: value for key, value in IN_HALF.items() if key in config}
        config = {key: value for key, value in config.items() if value is not None} | {"bf16": True, "fp16": None}
    files = {"train.yaml": yaml.safe_dump(config)}
    analysis, analyser = answered(Case(0, "RTX4090", "", "", files, {}, 2, {"transformers": release}))
    again = analyser.reanalysis(analysis, analyser.workspaces.of("train.yaml"))
    search = PlanSearch(analysis.runs[0], analysis.estimates[0], SearchHooks(express=edit_writer(analysis)))
    shared = [one for one in search.steps(()) if "with FSDP" in one.title]
    if analysis.runs[0].stack.framework == "axolotl" and release == (5, 23):
        assert shared == []  # Axolotl 0.20 has FSDP2 alone, which refuses to read 4-bit weights layer by layer
        return
    assert len(shared) == 2 and all(one.title.startswith("4-bit base") is not packed for one in shared)
    for one in shared:
        option = written(analysis, 0, search.plan((one,)), again)
        assert isinstance(option, WrittenPlan), one.title
        assert read_otherwise(option) == (), one.title


def test_4_bit_weights_are_shared_by_fsdp_where_the_card_never_holds_them_whole() -> None:
    """Axolotl packs one layer after another in host memory; with transformers 5 LLaMA-Factory has the whole model on
    each card before FSDP divides it."""
    (first, *_) = _options(IN_4_BITS["Axolotl"], "RTX4090", 2)
    assert [step.title for step in first.plan.steps] == ["shard over the 2 GPUs with FSDP, shards in host memory"]
    others = _options(IN_4_BITS["LLaMA-Factory"], "RTX4090", 2)
    assert all(one.plan.estimate.verdict == "out_of_memory" for one in others)


def test_an_adapter_on_a_base_in_half_precision_gets_4_bits_and_fsdp_in_one_plan() -> None:
    """Beside ZeRO-3 with parameters in host memory, with which a step takes more than twice as long."""
    whole = {"adapter": "lora", "load_in_4bit": False, "micro_batch_size": 1, "sequence_len": 1024}
    first, second, *_ = _options(AXOLOTL | ON_QLORA | whole, "RTX4090", 4)
    assert first.plan.risk == 0 and first.plan.speed > 2
    assert second.plan.run.model.quantization.bits == 4 and second.plan.run.parallelism.engine == "fsdp"
    config = yaml.safe_load(second.tried.contents["train.yaml"])
    assert config["adapter"] == "qlora" and config["load_in_4bit"] is True and config["fsdp_config"]


@pytest.mark.parametrize(
    "config",
    [
        AXOLOTL | ON_QLORA | {"base_model": "mistralai/Mixtral-8x7B-v0.1"},
        AXOLOTL | ON_QLORA | {"bnb_config_kwargs": {"bnb_4bit_quant_type": "fp4"}},
        IN_4_BITS["LLaMA-Factory"] | {"stage": "ppo", "reward_model": "r"},
        IN_4_BITS["LLaMA-Factory"] | {"quantization_bit": 8},
        IN_4_BITS["LLaMA-Factory"] | {"model_name_or_path": "unsloth/llama-3-70b-bnb-4bit"},
    ],
)
def test_fsdp_is_not_proposed_where_the_framework_refuses_it(config: dict[str, Any]) -> None:
    analysis, _ = answered(Case(0, "RTX4090", "", "", {"train.yaml": yaml.safe_dump(config)}, {}, 2))
    search = PlanSearch(analysis.runs[0], analysis.estimates[0], SearchHooks(express=edit_writer(analysis)))
    assert not [one for one in search.steps(()) if "with FSDP" in one.title]


@pytest.mark.parametrize("name", ["LLaMA-Factory", "TRL"])
def test_an_older_release_that_packs_on_the_host_is_told_of_with_the_figure_of_its_file(name: str) -> None:
    config = IN_4_BITS[name] | {"per_device_train_batch_size": 1}
    config |= {"max_length": 1024} if name == "TRL" else {}
    analysis, _ = answered(Case(0, "RTX4090", "", "", {"train.yaml": yaml.safe_dump(config)}, {}, 2))
    run, before = analysis.runs[0], analysis.estimates[0]
    (told,) = [fix for fix in advice(run, before, estimate) if "with transformers 4.57" in fix.title]
    assert before.verdict == "out_of_memory" and told.verdict_after == "fits" and not told.edits

    stored = {"bnb_4bit_quant_storage": "bfloat16"} if name == "TRL" else {}
    files = {"train.yaml": yaml.safe_dump(config | stored | started_fsdp(1, offloads=True))}
    older, _ = answered(Case(0, "RTX4090", "", "", files, {}, 2, {"transformers": (4, 57, 6)}))
    assert older.estimates[0].verdict == "fits"
    assert older.estimates[0].on_card == told.after
    assert not [fix for fix in advice(older.runs[0], before, estimate) if "transformers" in fix.title]


_LARGE = {"model": "LLM-Research/Meta-Llama-3-70B-Instruct", "max_length": 1024, "per_device_train_batch_size": 1}
SWIFT_IN_4_BITS = SWIFT | _LARGE | {"rlhf_type": None, "tuner_type": "lora", "quant_method": "bnb", "quant_bits": 4}


BEFORE_ITS_KEY = {"swift": (3, 11, 0)}


@pytest.mark.parametrize("quantized", (True, False))
def test_ms_swift_shares_4_bits_with_a_key_of_its_own(quantized: bool) -> None:
    values = {name: value for name, value in SWIFT_IN_4_BITS.items() if quantized or "quant" not in name}
    found = _options(values, "RTX4090", 4, {"transformers": (4, 57, 6)})
    (shared,) = [one for one in found if one.plan.run.parallelism.engine == "fsdp"]
    assert shared.plan.steps[0].title.startswith("4-bit base") is not quantized
    assert shared.plan.estimate.verdict == "fits" and read_otherwise(shared) == ()


def test_ms_swift_writes_completions_without_the_first_fsdp() -> None:
    values = SWIFT_IN_4_BITS | {"rlhf_type": "grpo", "num_generations": 4}
    analysis, _ = answered(Case(0, "RTX4090", "", "", {"train.yaml": yaml.safe_dump(values)}, {}, 4))
    assert analysis.runs[0].planning.starts_fsdp == 0


def test_fsdp_that_a_launch_file_starts_is_told_of_with_its_figure() -> None:
    """ms-swift before 3.12 has no `fsdp` of its own."""
    files = {"train.yaml": yaml.safe_dump(SWIFT_IN_4_BITS)}
    analysis, _ = answered(Case(0, "RTX4090", "", "", files, {}, 4, BEFORE_ITS_KEY))
    run, before = analysis.runs[0], analysis.estimates[0]
    (told,) = [fix for fix in advice(run, before, estimate) if "with FSDP" in fix.title]
    assert "fsdp_offload_params" in told.note and "bnb_4bit_quant_storage" in told.note and not told.edits
    assert told.quality == "none" and told.after is not None

    started = {
        "fsdp": "full_shard auto_wrap offload",
        "fsdp_config": {"fsdp_version": 1, "cpu_ram_efficient_loading": True},
    }
    files = {
        "train.yaml": yaml.safe_dump(
            SWIFT_IN_4_BITS | {"fsdp": json.dumps(started), "bnb_4bit_quant_storage": "bfloat16"}
        )
    }
    older, _ = answered(Case(0, "RTX4090", "", "", files, {}, 4, {"transformers": (4, 57, 6)}))
    read = older.estimates[0].on_card
    assert read is not None and read.figure == pytest.approx(told.after.figure, rel=0.01)

    files = {"train.yaml": yaml.safe_dump(SWIFT_IN_4_BITS)}
    stated, _ = answered(Case(0, "RTX4090", "", "", files, {}, 4, {"transformers": (4, 57, 6), **BEFORE_ITS_KEY}))
    (same,) = [fix for fix in advice(stated.runs[0], stated.estimates[0], estimate) if "with FSDP" in fix.title]
    assert "4.57" not in same.title and same.after is not None
    assert same.after.figure == pytest.approx(told.after.figure, rel=0.01)

    whole = {"train.yaml": yaml.safe_dump(SWIFT_IN_4_BITS | {"quant_method": None, "quant_bits": None})}
    in_half, _ = answered(Case(0, "RTX4090", "", "", whole, {}, 4, BEFORE_ITS_KEY))
    (packed,) = [fix for fix in advice(in_half.runs[0], before, estimate) if "with FSDP" in fix.title]
    assert packed.title.startswith("4-bit base") and packed.quality == "low"

    whole = {"train.yaml": yaml.safe_dump(SWIFT_IN_4_BITS | {"tuner_type": "full", "quant_method": None})}
    in_full, _ = answered(Case(0, "RTX4090", "", "", whole, {}, 4, BEFORE_ITS_KEY))
    assert not [fix for fix in advice(in_full.runs[0], before, estimate) if "FSDP" in fix.title]  # nothing adapts it


def test_axolotl_packs_layer_by_layer_where_fsdp_would_find_the_whole_model_on_each_card() -> None:
    sharded = {"fsdp_version": 1, "fsdp_config": {"offload_params": True, "cpu_ram_efficient_loading": True}}
    (first, *_) = _options(AXOLOTL | ON_QLORA | sharded, "RTX4090", 2)
    assert yaml.safe_load(first.tried.contents["train.yaml"])["qlora_sharded_model_loading"] is True
    assert read_otherwise(first) == () and first.plan.risk == 0


def test_a_run_under_fsdp_is_told_of_the_release_that_packs_on_the_host() -> None:
    config = IN_4_BITS["LLaMA-Factory"] | {"per_device_train_batch_size": 1} | started_fsdp(1, offloads=True)
    analysis, _ = answered(Case(0, "RTX4090", "", "", {"train.yaml": yaml.safe_dump(config)}, {}, 2))
    (told,) = [fix for fix in advice(analysis.runs[0], analysis.estimates[0], estimate) if "4.57" in fix.title]
    assert told.title == "use transformers 4.57" and told.after is not None and told.after.high <= told.after.usable
