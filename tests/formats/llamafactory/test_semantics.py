"""What LLaMA-Factory makes of its keys, a line of its source for each fact (main at ff6d4d12e, v0.9.5)."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.base import Launch
from memlint.formats.llamafactory import format as llamafactory
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import analyse
from memlint.run import UNKNOWN, Origin, Quantization
from tests.formats.llamafactory.files import BASE, MODELS, context, document, field, messages, parse, run_of

# (keys, finetuning type, field, value, place in LLaMA-Factory's source)
FACTS: list[tuple[str, str, str, Any, str]] = [
    # upcasting of trainable parameters
    ("bf16: true", "full", "precision.trainable_dtype", "float32", "model/adapter.py:349"),
    ("bf16: true", "full", "precision.autocast", True, "transformers trainer, accelerate"),
    ("bf16: true", "full", "precision.compute", "bfloat16", "hparams/parser.py:641"),
    ("pure_bf16: true", "full", "precision.trainable_dtype", "bfloat16", "model/adapter.py:343"),
    ("pure_bf16: true", "full", "precision.autocast", False, "hparams/parser.py:641: training_args.bf16 stays off"),
    ("pure_bf16: true\nbf16: true", "full", "precision.autocast", True, "training_args.bf16 is on"),
    ("pure_bf16: true", "full", "precision.outputs_to_fp32", False, "no mixed precision in accelerate"),
    ("use_badam: true", "full", "precision.compute", "bfloat16", "model/adapter.py:343: weights stay as loaded"),
    ("use_badam: true\nbf16: true", "full", "precision.trainable_dtype", "bfloat16", "model/adapter.py:343"),
    ("bf16: true", "lora", "method.adapter_dtype", "float32", "model/adapter.py:310"),
    ("pure_bf16: true", "lora", "method.adapter_dtype", "float32", "peft 0.18 autocast_adapter_dtype=True"),
    ("bf16: true", "lora", "model.weights_dtype", "bfloat16", 'model/loader.py:154: torch_dtype="auto"'),
    ("fp16: true", "lora", "precision.compute", "float16", "hparams/parser.py:643"),
    ("", "full", "precision.compute", "float32", "no mixed precision"),
    ("upcast_layernorm: true", "lora", "precision.upcast_layernorm", True, "model_utils/checkpointing.py:171"),
    ("upcast_lmhead_output: true", "lora", "precision.upcast_lmhead_output", True, "checkpointing.py:200"),
    ("fp8: true", "full", "precision.fp8", "torchao", "hparams/training_args.py:123"),
    ("fp8: true\nfp8_backend: te", "full", "precision.fp8", "te", "hparams/training_args.py:130"),
    # checkpointing
    ("", "lora", "checkpointing.mode", "full", "model_utils/checkpointing.py:184"),
    ("", "lora", "checkpointing.reentrant", True, "hparams/model_args.py:149"),
    ("use_reentrant_gc: false", "lora", "checkpointing.reentrant", False, "hparams/model_args.py:149"),
    ("disable_gradient_checkpointing: true", "lora", "checkpointing.mode", "none", "checkpointing.py:184"),
    ("gradient_checkpointing: false", "lora", "checkpointing.mode", "full", "checkpointing.py:184"),
    (
        "disable_gradient_checkpointing: true\ngradient_checkpointing: true",
        "lora",
        "checkpointing.mode",
        "full",
        "transformers Trainer calls model.gradient_checkpointing_enable itself",
    ),
    ("use_unsloth_gc: true", "lora", "checkpointing.mode", "unsloth", "checkpointing.py:63"),
    (
        "use_unsloth: true\ndisable_gradient_checkpointing: true",
        "lora",
        "checkpointing.mode",
        "unsloth",
        "model_utils/unsloth.py:77",
    ),
    ("use_unsloth_gc: true", "lora", "checkpointing.offload", True, "checkpointing.py:75: hidden_states.to('cpu')"),
    # sequence
    ("", "lora", "sequence.length", 2048, "hparams/data_args.py:47"),
    ("cutoff_len: 4096", "lora", "sequence.length", 4096, "hparams/data_args.py:47"),
    ("", "lora", "sequence.packing", False, "hparams/parser.py:645"),
    ("packing: true", "lora", "sequence.packing", True, "hparams/parser.py:645"),
    ("packing: true", "lora", "sequence.length_is_bound", False, "data/processor/supervised.py:218"),
    ("neat_packing: true", "lora", "sequence.packing", True, "hparams/data_args.py:185"),
    ("shift_attn: true", "lora", "sequence.shift_attention", True, "model_utils/longlora.py:359"),
    ("rope_scaling: yarn", "lora", "sequence.rope_scaling", "yarn", "model_utils/rope.py:35"),
    # attention
    ("", "lora", "attention.implementation", "sdpa", "model_utils/attention.py:65 leaves transformers' default"),
    ("flash_attn: fa2", "lora", "attention.implementation", "flash_attention_2", "model_utils/attention.py:84"),
    ("flash_attn: disabled", "lora", "attention.implementation", "eager", "model_utils/attention.py:69"),
    ("flash_attn: sdpa", "lora", "attention.implementation", "sdpa", "model_utils/attention.py:76"),
    ("flash_attn: flash_attention_2", "lora", "attention.implementation", UNKNOWN, "attention.py:94 raises"),
    # adapters
    ("", "lora", "method.rank", 8, "hparams/finetuning_args.py: lora_rank"),
    ("lora_rank: 64", "lora", "method.alpha", 128, "hparams/finetuning_args.py:587"),
    ("lora_rank: 64\nlora_alpha: 16", "lora", "method.alpha", 16, "hparams/finetuning_args.py:587"),
    ("", "lora", "method.targets", ("all-linear",), "model/adapter.py:230"),
    ("lora_target: q_proj, v_proj", "lora", "method.targets", ("q_proj", "v_proj"), "finetuning_args.py:588"),
    ("lora_target: [q_proj, v_proj]", "lora", "method.targets", ("q_proj", "v_proj"), "finetuning_args.py:580"),
    ("additional_target: lm_head", "lora", "method.modules_to_save", ("lm_head",), "model/adapter.py:265"),
    ("resize_vocab: true", "lora", "method.modules_to_save", ("embed_tokens", "lm_head"), "model/adapter.py:246"),
    ("add_tokens: a,b,c", "lora", "model.new_special_tokens", 3, "model/patcher.py:333"),
    ("use_dora: true", "lora", "method.use_dora", True, "model/adapter.py:264"),
    ("use_rslora: true", "lora", "method.use_rslora", True, "model/adapter.py:263"),
    ("", "oft", "method.oft_block_size", 32, "hparams/finetuning_args.py: oft_block_size"),
    ("", "freeze", "method.freeze_trainable_layers", 2, "hparams/finetuning_args.py: freeze_trainable_layers"),
    ("freeze_trainable_layers: -3", "freeze", "method.freeze_trainable_layers", -3, "model/adapter.py:91"),
    ("freeze_extra_modules: lm_head", "freeze", "method.freeze_extra_modules", ("lm_head",), "model/adapter.py:115"),
    ("use_llama_pro: true", "freeze", "method.use_llama_pro", True, "model/adapter.py:80"),
    # stages
    ("stage: dpo", "lora", "method.reference_model", "shared", "train/trainer_utils.py:137"),
    ("stage: dpo", "full", "method.reference_model", "copy", "train/trainer_utils.py:140"),
    ("stage: dpo", "oft", "method.reference_model", "copy", "train/trainer_utils.py:137: only lora shares"),
    ("stage: dpo\npref_loss: orpo", "full", "method.reference_model", "none", "finetuning_args.py:593"),
    ("stage: dpo\npref_loss: simpo", "full", "method.reference_model", "none", "finetuning_args.py:593"),
    ("stage: dpo\nref_model: llama", "lora", "method.reference_model", "named", "train/trainer_utils.py:123"),
    ("stage: kto", "full", "method.reference_model", "copy", "train/kto/workflow.py:60"),
    ("use_asft_loss: true", "full", "method.reference_model", "copy", "train/sft/workflow.py:56"),
    ("stage: dpo\nlora_dropout: 0.1", "lora", "method.dropout", 0.0, "train/dpo/trainer.py:51 disable_dropout"),
    ("stage: dpo", "lora", "loss.preference", "sigmoid", "hparams/finetuning_args.py: pref_loss"),
    ("stage: dpo", "lora", "loss.upcast_logits", True, "train/dpo/trainer.py:230"),
    ("stage: ppo\nreward_model: x", "lora", "method.reward_model", "lora", "train/trainer_utils.py:159"),
    ("stage: ppo\nreward_model: llama\nreward_model_type: full", "lora", "method.reward_model", "full", "same:177"),
    # loss
    ("", "lora", "loss.kind", "plain", "model_utils/liger_kernel.py:37"),
    ("enable_liger_kernel: true", "lora", "loss.kind", "liger", "model_utils/liger_kernel.py:101"),
    ("enable_liger_kernel: true\nstage: dpo", "lora", "loss.kind", "plain", "model/loader.py:142 require_logits"),
    ("enable_liger_kernel: true\nstage: dpo", "lora", "loss.liger_kernels", True, "liger_kernel.py:99"),
    ("enable_liger_kernel: true\nuse_dft_loss: true", "lora", "loss.kind", "plain", "train/sft/trainer.py:108"),
    # optimizer
    ("", "lora", "optimizer.name", "adamw_torch_fused", "transformers 4.57 default_optim with torch >= 2.8"),
    ("optim: paged_adamw_8bit", "lora", "optimizer.name", "paged_adamw_8bit", "transformers"),
    ("use_galore: true\noptim: adamw_torch", "full", "optimizer.name", "galore_adamw", "trainer_utils.py:240"),
    ("use_galore: true\noptim: adamw_8bit", "full", "optimizer.name", "galore_adamw_8bit", "trainer_utils.py:242"),
    ("use_galore: true", "full", "optimizer.rank", 16, "hparams/finetuning_args.py: galore_rank"),
    ("use_galore: true\ngalore_layerwise: true", "full", "optimizer.layerwise", True, "trainer_utils.py:248"),
    ("use_apollo: true\napollo_rank: 256", "full", "optimizer.rank", 256, "finetuning_args.py: apollo_rank"),
    ("use_badam: true", "full", "optimizer.badam_mode", "layer", "finetuning_args.py: badam_mode"),
    ("use_muon: true", "full", "optimizer.name", "muon", "train/trainer_utils.py:547"),
    ("use_adam_mini: true", "full", "optimizer.name", "adam_mini", "train/trainer_utils.py:544"),
    # quantisation
    ("quantization_bit: 8", "lora", "model.quantization", Quantization("bnb", 8, "int8"), "quantization.py:181"),
    (
        "quantization_bit: 4\nquantization_method: hqq",
        "lora",
        "model.quantization.method",
        "hqq",
        "quantization.py:214",
    ),
    # evaluation and batches
    ("", "lora", "batch.micro_batch_size", 8, "transformers TrainingArguments"),
    ("val_size: 0.1\neval_strategy: steps", "lora", "evaluation.enabled", True, "transformers TrainingArguments"),
    ("val_size: 0.1\neval_strategy: steps", "lora", "evaluation.batch_size", 8, "transformers TrainingArguments"),
    ("val_size: 500\neval_strategy: steps", "lora", "evaluation.samples", 500, "hparams/data_args.py: val_size"),
    ("", "lora", "evaluation.keeps_logits", False, "train/sft/workflow.py:75: no compute_metrics"),
    ("enable_liger_kernel: true", "lora", "evaluation.fused_loss", False, "nothing in src passes skip_logits"),
    # launch
    ("", "lora", "parallelism.world_size", UNKNOWN, "launcher.py:66"),
    ("ray_num_workers: 4", "lora", "parallelism.world_size", 4, "train/tuner.py:308"),
    ("", "lora", "parallelism.find_unused_parameters", False, "hparams/parser.py:602"),
    ("tensor_model_parallel_size: 2", "full", "parallelism.engine", "megatron", "hparams/training_args.py:32"),
    ("tensor_model_parallel_size: 2", "full", "parallelism.tensor_parallel_size", 2, "megatron_bridge_args.py"),
    ("", "lora", "stack.transformers", (5, 8), "pyproject.toml: transformers<=5.8.0"),
    ("use_kt: true", "lora", "checkpointing.reentrant", False, "model_utils/checkpointing.py:43"),
    ("use_kt: true", "lora", "stack.unmodelled", "", "kt-kernel 0.7.2 sft/arch.py:272"),
    (
        "use_kt: true\nkt_use_lora_experts: true",
        "lora",
        "stack.unmodelled",
        "`kt_use_lora_experts`: experts on the card beside those of the CPU",
        "hparams/model_args.py: kt_use_lora_experts",
    ),
    (
        "use_kt: true\nkt_optimize_rule: DeepSeek-V3-Chat-sft-amx-multi-gpu.yaml",
        "lora",
        "stack.unmodelled",
        "`kt_optimize_rule`: its rules divide the layers over cards",
        "0.9.4 examples/kt_optimize_rules",
    ),
]


@pytest.mark.parametrize(("keys", "kind", "name", "value", "source"), FACTS)
def test_a_key_means_what_the_source_says(keys: str, kind: str, name: str, value: Any, source: str) -> None:
    text = BASE.format(kind=kind)
    for line in keys.splitlines():  # a key of the table replaces the one in BASE
        text = "".join(one + "\n" for one in text.splitlines() if one.split(":")[0] != line.split(":")[0])
    found: Any = parse(text + keys).runs[0]
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value, source


def test_packing_is_on_in_pre_training() -> None:
    parsed = parse("model_name_or_path: llama\nstage: pt\ndo_train: true\nfinetuning_type: full\ndataset: d\n")
    assert parsed.runs[0].sequence.packing is True  # hparams/parser.py:645
    assert parsed.runs[0].sequence.length_is_bound is False


def test_four_bits_are_nf4_with_double_quantisation_stored_in_the_compute_dtype() -> None:
    found = field("quantization_bit: 4\nbf16: true", "model.quantization")
    assert found == Quantization("bnb", 4, "nf4", True, "bfloat16")  # model_utils/quantization.py:184-190


def test_a_quantised_checkpoint_wins_over_quantization_bit() -> None:
    parsed = parse(BASE.format(kind="lora").replace(": llama\n", ": gptq\n", 1) + "quantization_bit: 4\n")
    quantization = parsed.runs[0].model.quantization
    assert (quantization.method, quantization.prequantized, quantization.group_size) == ("gptq", True, 128)
    assert "ignored" in messages(parsed, "ignored-key")[0]  # model_utils/quantization.py:96


def test_mxfp4_checkpoints_are_dequantised_while_they_load() -> None:
    parsed = parse(BASE.format(kind="lora").replace(": llama\n", ": gpt_oss\n", 1))
    assert parsed.runs[0].model.quantization.method == "none"  # model_utils/quantization.py:107
    assert parsed.runs[0].attention.implementation == "flash_attention_3"  # model_utils/attention.py:34


@pytest.mark.parametrize(
    ("model", "keys", "name", "value"),
    [
        ("opt", "enable_liger_kernel: true", "loss.kind", "plain"),  # liger_kernel.py:94: not supported
        ("opt", "enable_liger_kernel: true", "loss.liger_kernels", False),
        ("granite", "enable_liger_kernel: true", "loss.kind", "fused_ce"),  # liger monkey_patch.py:187
        ("gemma2", "", "attention.implementation", UNKNOWN),  # attention.py:46: depends on the environment
        ("gemma2", "flash_attn: fa2", "attention.implementation", "flash_attention_2"),
        ("gemma3n", "", "checkpointing.mode", "none"),  # model/patcher.py:477
        ("vlm", "", "method.freeze_vision_tower", True),  # model_utils/visual.py:178
        ("vlm", "freeze_vision_tower: false", "method.freeze_vision_tower", False),
        ("omni", "", "method.freeze_vision_tower", True),  # loader.py:180: the thinker alone is kept
        ("foreign-vlm", "", "method.freeze_vision_tower", False),  # visual.py:177: not registered
        ("vlm", "", "sequence.image_max_pixels", 768 * 768),  # hparams/model_args.py:306
        ("vlm", "", "sequence.video_max_length", 128),  # hparams/model_args.py:333
        ("llama", "", "sequence.image_max_pixels", 0),
        ("fp32", "bf16: true", "model.weights_dtype", "float32"),  # loader.py:154: the checkpoint's dtype
        ("fp32", "pure_bf16: true", "precision.trainable_dtype", "float32"),
        ("nobody", "enable_liger_kernel: true", "loss.kind", UNKNOWN),
        ("nobody", "", "model.weights_dtype", UNKNOWN),
    ],
)
def test_the_model_decides(model: str, keys: str, name: str, value: Any) -> None:
    found: Any = parse(BASE.format(kind="full").replace(": llama\n", f": {model}\n", 1) + keys).runs[0]
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


def test_old_versions_load_in_the_compute_dtype() -> None:
    text = BASE.format(kind="lora").replace(": llama\n", ": fp32\n", 1) + "bf16: true\n"
    old = parse(text, versions={"llamafactory": (0, 9, 3)}).runs[0]
    assert old.model.weights_dtype == "bfloat16"  # v0.9.3 model/patcher.py:144


def test_checkpointing_cannot_be_switched_off_by_the_trainers_key() -> None:
    parsed = parse(BASE.format(kind="lora") + "gradient_checkpointing: false\n")
    [issue] = [issue for issue in parsed.issues if issue.code == "ignored-key"]
    assert issue.pointer == ("gradient_checkpointing",)
    assert issue.suggestion == "disable_gradient_checkpointing"


def test_unsloth_checkpoints_adapted_layers_whatever_is_said() -> None:
    off = "use_unsloth: true\ndisable_gradient_checkpointing: true\n"
    parsed = parse(BASE.format(kind="lora") + off)
    [issue] = [issue for issue in parsed.issues if issue.code == "ignored-key"]
    assert issue.pointer == ("disable_gradient_checkpointing",)
    assert parsed.runs[0].checkpointing.offload is True
    full = parse(BASE.format(kind="full") + off)
    assert full.runs[0].checkpointing.mode == "none"
    assert not messages(full, "ignored-key")


def test_bitsandbytes_is_a_name_of_the_past() -> None:
    text = BASE.format(kind="lora") + "quantization_bit: 4\nquantization_method: bitsandbytes\n"
    assert parse(text).runs[0].model.quantization.method == "bnb"
    assert "0.9.3" in messages(parse(text), "removed-value")[0]
    new = parse(text, versions={"llamafactory": (0, 9, 5)})
    assert new.runs[0].model.quantization.method == "none"  # quantization.py:178: no branch matches
    assert not messages(parse(text, versions={"llamafactory": (0, 9, 2)}), "removed-value")


DEEPSPEED = """{"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"},
"gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 3, "overlap_comm": false,
"reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"}}"""


def test_a_deepspeed_file_gives_stage_buckets_and_half_precision() -> None:
    parsed = parse(BASE.format(kind="full") + "bf16: true\ndeepspeed: z3.json\n", {"z3.json": DEEPSPEED}, gpus=8)
    run = parsed.runs[0]
    assert not parsed.issues
    assert (run.parallelism.engine, run.parallelism.zero.stage) == ("deepspeed", 3)
    assert run.parallelism.zero.reduce_bucket_size == 64 * 64  # hidden size squared
    assert (run.precision.trainable_dtype, run.precision.autocast) == ("bfloat16", False)
    assert run.related == ("z3.json",) and run.origins["parallelism.zero.stage"].path == "z3.json"
    assert parsed.raw_places["deepspeed"] == ("z3.json", ())


def test_a_missing_deepspeed_file_is_an_issue_at_its_name_and_the_stage_unknown() -> None:
    parsed = parse(BASE.format(kind="full") + "deepspeed: gone.json\n", gpus=8)
    [issue] = [issue for issue in parsed.issues if issue.code == "missing-reference"]
    assert issue.pointer == ("deepspeed",) and "gone.json" in issue.message
    assert parsed.runs[0].parallelism.zero.stage is UNKNOWN


def test_a_file_of_the_clone_beside_the_config_is_there() -> None:
    config = BASE.format(kind="full") + "deepspeed: examples/deepspeed/own.json\n"
    clone = {"LLaMA-Factory/examples/deepspeed/own.json": '{"zero_optimization": {"stage": 2}}'}
    workspace = in_memory({"sft.yaml": config, **clone})
    analysis = analyse(workspace.documents("sft.yaml")[0], workspace.context(gpus=8), ())
    assert analysis.runs[0].parallelism.zero.stage == 2
    assert not [one for one in analysis.findings if one.rule == "REF001"]


@pytest.mark.parametrize(
    ("name", "stage", "offload", "severity"),
    [
        ("examples/deepspeed/ds_z3_config.json", 3, "none", "info"),
        ("examples/deepspeed/ds_z3_fp8_config.json", 3, "cpu", "info"),
        ("../LLaMA-Factory/examples/deepspeed/ds_z3_offload_config.json", 3, "cpu", "info"),
        ("/data/ds_z2_config.json", 2, "none", "warning"),
        ("ds_z0_offload_config.json", UNKNOWN, None, "warning"),
    ],
)
def test_llama_factorys_own_deepspeed_files_are_known(name: str, stage: Any, offload: Any, severity: str) -> None:
    parsed = parse(BASE.format(kind="full") + f"bf16: true\ndeepspeed: {name}\n", gpus=8)
    run = parsed.runs[0]
    assert [(issue.code, issue.severity) for issue in parsed.issues] == [("missing-reference", severity)]
    assert run.parallelism.zero.stage == stage
    assert offload is None or run.offload.optimizer == offload
    assert "deepspeed" not in parsed.raw_places  # no fix edits a file that is not there


@pytest.mark.parametrize("line", ["overwrite_output_dir: saves/x", "do_sample: ture", "export_device: gpu"])
def test_text_that_is_only_asked_for_truth_lets_the_run_start(line: str) -> None:
    parsed = parse(BASE.format(kind="lora") + line + "\n")
    assert [(issue.code, issue.severity) for issue in parsed.issues] == [("bad-value", "warning")]
    assert "counts as" in parsed.issues[0].message
    assert "export" not in line or parsed.issues[0].suggestion == "auto"


def test_a_file_that_is_no_deepspeed_configuration_is_told_apart() -> None:
    parsed = parse(BASE.format(kind="full") + "deepspeed: other.json\n", {"other.json": '{"a": 1}'})
    assert messages(parsed, "wrong-companion") == ["`other.json` is no DeepSpeed configuration"]


def test_an_inline_deepspeed_mapping_counts_as_one() -> None:
    run = run_of("deepspeed:\n  zero_optimization:\n    stage: 2\n", "full", gpus=4)
    assert run.parallelism.zero.stage == 2
    assert run.origins["parallelism.zero.stage"].kind == "file"


def test_fsdp_through_the_trainers_keys() -> None:
    run = run_of("bf16: true\nfsdp: full_shard auto_wrap offload\n", "full", gpus=4)
    assert (run.parallelism.engine, run.parallelism.fsdp.version) == ("fsdp", 1)
    assert run.parallelism.fsdp.strategy == "FULL_SHARD" and run.parallelism.fsdp.cpu_offload
    assert run.parallelism.fsdp.wrap == "transformer"


def test_an_accelerate_file_beside_the_config_gives_processes_and_fsdp2() -> None:
    text = "distributed_type: FSDP\nnum_processes: 4\nmixed_precision: bf16\nfsdp_config:\n  fsdp_version: 2\n"
    companions = (document(text, "/repo/fsdp.yaml"),)
    run = parse(BASE.format(kind="full") + "bf16: true\n", companions=companions).runs[0]
    assert (run.parallelism.world_size, run.parallelism.fsdp.version) == (4, 2)
    assert run.checkpointing.reentrant is False  # model_utils/checkpointing.py:181


def test_distributed_training_gets_expandable_segments_from_the_launcher() -> None:
    assert run_of("", gpus=8).stack.expandable_segments is True  # launcher.py:82
    assert run_of("", gpus=1).stack.expandable_segments is False
    assert run_of("", gpus=8).parallelism.engine == "ddp"
    assert run_of("", gpus=1).parallelism.engine == "single"
    for release, expands in (((0, 9, 2), False), ((0, 9, 3), True)):
        run = parse(BASE.format(kind="full"), gpus=8, versions={"llamafactory": release}).runs[0]
        assert run.stack.expandable_segments is expands


def test_an_interpolation_is_unknown_and_said_to_arrive_as_text() -> None:
    parsed = parse(BASE.format(kind="lora") + "cutoff_len: ${length}\nlength: 12\n")
    assert parsed.runs[0].sequence.length is UNKNOWN
    assert parsed.runs[0].origins["sequence.length"].kind == "unknown"
    assert "resolve=True" in messages(parsed, "interpolation")[0]  # hparams/parser.py:120
    assert not messages(parsed, "wrong-type")


def test_every_field_that_is_set_says_where_it_comes_from() -> None:
    run = run_of("bf16: true\ncutoff_len: 1024\n", gpus=2)
    assert run.origins["sequence.length"] == Origin("file", "/repo/train.yaml", 8, 13, ("cutoff_len",))
    assert run.origins["batch.micro_batch_size"].kind == "default"
    assert run.origins["parallelism.world_size"].kind == "command_line"
    plain = type(run)(run.format, run.path)
    for group in ("method", "precision", "batch", "sequence", "attention", "checkpointing", "loss", "parallelism"):
        for name, value in getattr(run, group)._asdict().items():
            if value != getattr(getattr(plain, group), name) and name not in ("zero", "fsdp"):
                assert f"{group}.{name}" in run.origins


def test_llama_pro_adapts_its_expanded_blocks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "llama", MODELS["llama"]._replace(layer_type_ids=(0,) * 8))
    run = run_of("use_llama_pro: true\nfreeze_trainable_layers: 2\n")
    assert run.method.layers_to_transform == (3, 7)  # model_utils/misc.py:67


def test_json_configs_are_beyond_the_newest_version() -> None:
    text = (
        '{"model_name_or_path": "llama", "stage": "sft", "finetuning_type": "lora", "template": "qwen", "dataset": "d"}'
    )
    given = document(text, "/repo/train.json")
    handed = context().repository.but(launch_commands=lambda path: (Launch(launcher="llamafactory-cli"),))
    assert [issue.code for issue in llamafactory.parse(given, context()._replace(repository=handed)).issues] == [
        "unreadable-config"
    ]
    assert not llamafactory.parse(given, context()).issues  # a script may load it
    older = context(versions={"llamafactory": (0, 9, 4)})._replace(repository=handed)
    assert not llamafactory.parse(given, older).issues


def test_a_reference_of_its_own_has_its_own_size() -> None:
    """create_ref_model loads what `ref_model` names, in its own dtype and quantisation (train/trainer_utils.py:116)."""
    dpo = "stage: dpo\nref_model: {}\nref_model_quantization_bit: 4\n"
    other = run_of(dpo.format("qwen3")).method.extra_models[0]
    assert (other.name, other.architecture.family, other.quantization.bits) == ("qwen3", "qwen3", 4)

    folder = run_of(dpo.format("saves/mine"))
    assert folder.method.extra_models[0].architecture is folder.model.architecture
    assert "saves/mine is known: taken to be the policy's" in folder.origins["method.extra_models"].detail


def test_inference_and_export_are_no_training() -> None:
    text = "model_name_or_path: llama\ntemplate: llama3\ninfer_backend: huggingface\nenable_liger_kernel: true\n"
    chat = parse(text).runs[0]
    assert (chat.loss.kind, chat.loss.liger_kernels) == ("plain", False)  # model_utils/liger_kernel.py:37
    assert (chat.purpose, chat.method.kind) == ("inference", "none")
    export = parse(
        "model_name_or_path: llama\nadapter_name_or_path: a\ntemplate: llama3\nexport_dir: out\nexport_size: 5\n"
    ).runs[0]
    assert export.purpose == "export"
    assert export.parallelism.engine is UNKNOWN  # no step runs: a figure for one would be wrong
    assert "nothing is on a card" in export.origins["parallelism.engine"].detail


V1 = "model: qwen3\nmodel_class: llm\ntrain_dataset: d.yaml\nmicro_batch_size: 2\n"


@pytest.mark.parametrize(
    ("keys", "name", "value"),
    [
        ("", "method.kind", "full"),
        ("", "precision.trainable_dtype", "float32"),  # v1/core/model_engine.py:207
        ("", "precision.autocast", False),
        ("", "checkpointing.reentrant", False),  # v1/core/base_trainer.py:92
        ("enable_activation_checkpointing: false", "checkpointing.mode", "none"),
        ("", "attention.implementation", "sdpa"),  # v1/config/model_args.py
        ("flash_attn: flash_attention_2", "attention.implementation", "flash_attention_2"),
        ("", "optimizer.name", "adamw_torch"),  # v1/core/base_trainer.py:209
        ("optim_config: {name: muon}", "optimizer.name", "muon"),
        ("kernel_config: {name: liger_kernel}", "loss.kind", "plain"),  # require_logits=is_train
        ("kernel_config: {name: liger_kernel}", "loss.liger_kernels", True),
        ("peft_config: {name: lora, r: 16}", "method.rank", 16),
        ("peft_config: {name: lora}", "method.dropout", 0.05),  # v1/plugins/model_plugins/peft.py:42
        ("peft_config: {name: lora}\nquant_config: {name: bnb}", "model.quantization.bits", 4),
        ("dist_config: {name: fsdp2}", "parallelism.fsdp.param_dtype", "bfloat16"),
        ("dist_config: {name: fsdp2}", "parallelism.fsdp.reduce_dtype", "float32"),
        ("dist_config: {name: fsdp2, offload_params: true}", "parallelism.fsdp.cpu_offload", True),
        ("global_batch_size: 64", "batch.gradient_accumulation_steps", 4),
        ("cp_size: 2", "parallelism.sequence_parallel_size", 2),
    ],
)
def test_the_v1_layout(keys: str, name: str, value: Any) -> None:
    parsed = parse(V1 + keys, gpus=8)
    assert not parsed.issues
    found: Any = parsed.runs[0]
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


def test_v1_deepspeed_fills_auto_with_bf16() -> None:
    parsed = parse(V1 + "dist_config: {name: deepspeed, config_file: z3.json}\n", {"z3.json": DEEPSPEED}, gpus=8)
    assert parsed.runs[0].parallelism.zero.stage == 3
    assert parsed.runs[0].precision.trainable_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("backend", "length", "share"),
    [("vllm", "vllm_maxlen", "vllm_gpu_util"), ("sglang", "sglang_maxlen", "sglang_mem_fraction")],
)
def test_a_server_fills_a_share_of_every_card(backend: str, length: str, share: str) -> None:
    """chat/vllm_engine.py:73-82, chat/sglang_engine.py:88-93: all visible cards, a share of each."""
    text = f"model_name_or_path: m\ntemplate: llama3\ninfer_backend: {backend}\n{length}: 1234\n"
    run = parse(text, gpus=4).runs[0]
    assert run.sequence.length == 1234
    assert (run.parallelism.engine, run.parallelism.tensor_parallel_size) == (backend, 4)
    assert run.serving.memory_share == 0.7  # hparams/model_args.py:408 and 438
    assert parse(text + f"{share}: 0.5\n").runs[0].serving.memory_share == 0.5
    assert parse(text.replace(backend, "huggingface", 1)).runs[0].parallelism.engine == "single"


def test_sglang_shares_layers_between_as_many_cards_as_it_is_told() -> None:
    text = "model_name_or_path: m\ntemplate: llama3\ninfer_backend: sglang\nsglang_tp_size: 2\n"
    assert parse(text, gpus=8).runs[0].parallelism.tensor_parallel_size == 2


CHAT = "model_name_or_path: llama\ntemplate: llama3\ninfer_backend: huggingface\n"
PREDICT = BASE.format(kind="lora").replace("do_train", "do_predict") + "predict_with_generate: true\n"


def test_chat_spreads_the_layers_over_the_cards_and_prediction_does_not() -> None:
    """hparams/parser.py:567 (`device_map = "auto"`) and 517 (this process's card); with bitsandbytes one card holds all
    (model_utils/quantization.py:192)."""
    assert parse(CHAT, gpus=2).runs[0].parallelism.engine == "device_map"
    assert parse(CHAT + "quantization_bit: 4\n", gpus=2).runs[0].parallelism.engine != "device_map"
    predict = parse(PREDICT, gpus=2).runs[0]
    assert (predict.purpose, predict.parallelism.engine) == ("inference", "ddp")
    assert predict.evaluation.enabled is True and parse(CHAT).runs[0].evaluation.enabled is False


@pytest.mark.parametrize(("release", "weights"), [((0, 9, 3), "float32"), ((0, 9, 4), "bfloat16")])
def test_infer_dtype_is_the_dtype_of_the_weights_up_to_0_9_3(release: tuple[int, ...], weights: str) -> None:
    """0.9.3 model/patcher.py:99-103 and 144; 0.9.4 model/loader.py:160: `torch_dtype = "auto"`."""
    run = parse(CHAT + "infer_dtype: float32\n", versions={"llamafactory": release}).runs[0]
    assert (run.model.weights_dtype, run.precision.compute) == (weights, weights)


def test_the_cache_can_be_switched_off() -> None:
    assert parse(CHAT).runs[0].serving.uses_cache is True
    assert parse(CHAT + "use_kv_cache: false\n").runs[0].serving.uses_cache is False


@pytest.mark.parametrize(
    ("release", "found"),
    [
        ((0, 9, 4), [("SRC002", "error")]),
        ((0, 9, 3), [("CFG002", "error"), ("SRC002", "warning")]),
    ],
)
def test_pyyaml_read_the_file_before_omegaconf_did(release: tuple[int, ...], found: list[tuple[str, str]]) -> None:
    text = (
        "model_name_or_path: some/model\nstage: sft\ndo_train: true\nfinetuning_type: full\nfinetuning_type: lora\n"
        "dataset: alpaca_en_demo\ntemplate: default\noutput_dir: out\nlearning_rate: 1e-5\n"
    )
    workspace = in_memory({"train.yaml": text})
    (document,) = workspace.documents("train.yaml")
    findings = analyse(document, workspace.context(versions={"llamafactory": release}), ()).findings
    assert sorted((one.rule, one.severity) for one in findings) == found


def test_a_stage_of_a_fork_is_not_modelled() -> None:
    assert field("stage: cls", "stack.unmodelled") == "the stage `cls` of a fork"
    assert not field("stage: rm", "stack.unmodelled")


def test_sequences_that_a_fork_splits_are_not_modelled() -> None:
    split = "sequence_parallel_size: 8\nsequence_parallel_mode: zigzag-ring\n"
    assert field(split, "stack.unmodelled") == "sequences that 360-LLaMA-Factory splits over GPUs"


def test_how_a_program_of_its_own_divides_the_model_is_not_modelled() -> None:
    engine = "megatron:\n  tensor_model_parallel_size: 2\n"
    assert field(engine, "stack.unmodelled") == "how the program that takes `megatron` divides the model"


@pytest.mark.parametrize(
    ("keys", "codes"),
    [
        ("sequence_parallel_size: 8\nsequence_parallel_mode: zigzag-ring\npref_loss: nca_pair\n", []),
        ("sequence_parallel_size: 8\npref_loss: sigmoi\n", ["bad-value"]),
        ("pref_loss: nca_pair\n", ["bad-value"]),
    ],
)
def test_a_fork_takes_keys_and_words_of_its_own(keys: str, codes: list[str]) -> None:
    issues = parse(BASE.format(kind="full").replace("stage: sft", "stage: dpo") + keys).issues
    assert [issue.code for issue in issues] == codes
