"""A change written into the file and read again is the change, and nothing that was not asked for."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.findings import Edit
from memlint.formats.llamafactory import format as llamafactory
from memlint.repository.workspace import in_memory
from memlint.ruleset.engine import Engine
from memlint.run import Quantization, get
from tests.formats.llamafactory.files import BASE, V1_BASE, context, document, edited

DEEPSPEED = '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}}'
FULL = BASE.format(kind="full")
LORA = BASE.format(kind="lora")
NF4 = {"method": "bnb", "bits": 4, "kind": "nf4"}
ADAPTER = {"method.kind": "lora", "method.rank": 16, "method.alpha": 32, "method.targets": ("all-linear",)}
BOTH = {"offload.optimizer": "cpu", "offload.parameters": "cpu"}
V1_FSDP = V1_BASE + "dist_config:\n  name: fsdp2\n"
SAID: list[tuple[str, dict[str, Any]]] = [
    (LORA, {"batch.micro_batch_size": 1, "batch.gradient_accumulation_steps": 16}),
    (LORA + "cutoff_len: 8192\n", {"sequence.length": 4096}),
    (LORA + "flash_attn: disabled\n", {"attention.implementation": "flash_attention_2"}),
    (LORA, {"attention.implementation": "eager"}),
    (LORA + "disable_gradient_checkpointing: true\n", {"checkpointing.mode": "full"}),
    (LORA, {"checkpointing.mode": "none"}),
    (LORA + "gradient_checkpointing: true\n", {"checkpointing.mode": "none"}),
    (LORA, {"checkpointing.mode": "unsloth", "checkpointing.offload": True}),
    (LORA, {"loss.kind": "liger", "loss.liger_kernels": True}),
    (LORA, {"optimizer.name": "paged_adamw_8bit"}),
    (LORA + "bf16: true\n", {"model.quantization": Quantization("bnb", 4, "nf4", True, "bfloat16")}),
    (
        LORA + "bf16: true\n",
        {f"model.quantization.{part}": value for part, value in NF4.items()},
    ),
    (LORA + "quantization_bit: 4\n", {"model.quantization": Quantization()}),
    (LORA, {"method.rank": 16, "method.targets": ("q_proj", "v_proj")}),
    (FULL + "bf16: true\n", {"method.kind": "lora"}),
    (FULL + "bf16: true\n", ADAPTER),
    (FULL + "bf16: true\n", {**ADAPTER, **{f"model.quantization.{part}": value for part, value in NF4.items()}}),
    (FULL + "bf16: true\n", {"method.kind": "freeze", "method.freeze_trainable_layers": 4}),
    (
        FULL + "bf16: true\n",
        {"precision.trainable_dtype": "bfloat16", "precision.autocast": False, "precision.outputs_to_fp32": False},
    ),
    (LORA + "eval_strategy: steps\nval_size: 0.1\n", {"evaluation.enabled": False}),
    (LORA + "eval_strategy: steps\nval_size: 0.1\n", {"evaluation.batch_size": 1}),
    (LORA + "evaluation_strategy: steps\neval_dataset: held_out\n", {"evaluation.enabled": False}),
    (LORA.replace(": llama\n", ": vlm\n", 1), {"sequence.image_max_pixels": 262144}),
    (LORA.replace(": llama\n", ": vlm\n", 1), {"sequence.video_max_pixels": 16384}),
    (FULL.replace("sft", "dpo") + "bf16: true\n", {**ADAPTER, "method.reference_model": "shared"}),
    (FULL + "bf16: true\ndeepspeed: examples/deepspeed/ds_z2_config.json\n", {"parallelism.zero.stage": 3}),
    (FULL + "bf16: true\ndeepspeed: examples/deepspeed/ds_z3_config.json\n", BOTH),
    (FULL + "bf16: true\nfsdp: full_shard auto_wrap\n", {"parallelism.fsdp.cpu_offload": True}),
    (FULL + "bf16: true\n", {"parallelism.zero.stage": 3}),
    (FULL + "bf16: true\nuse_badam: true\n", {"parallelism.zero.stage": 3, "offload.parameters": "cpu"}),
    (FULL + "bf16: true\n", {"parallelism.zero.stage": 2, "offload.optimizer": "cpu"}),
    (FULL + "bf16: true\ndeepspeed: ds.json\n", {"parallelism.zero.stage": 3}),
    (FULL + "bf16: true\ndeepspeed: ds.json\n", {"offload.optimizer": "cpu", "batch.micro_batch_size": 1}),
    *(
        (FULL + f"use_{name}: true\n", {"method.kind": "lora", "optimizer.name": "adamw_torch"})
        for name in ("galore", "apollo", "badam")
    ),
    (V1_BASE, {"batch.micro_batch_size": 1, "sequence.length": 512}),
    (V1_BASE, {"checkpointing.mode": "none"}),
    (V1_BASE, {"attention.implementation": "flash_attention_2"}),
    (V1_FSDP, {"parallelism.fsdp.cpu_offload": True}),
    (V1_FSDP + "  reshard_after_forward: false\n", {"parallelism.fsdp.reshard_after_forward": True}),
]


@pytest.mark.parametrize(("text", "changes"), SAID)
def test_what_is_said_is_read_again(text: str, changes: dict[str, Any]) -> None:
    parsed = edited(text, changes, {"ds.json": DEEPSPEED})
    assert parsed is not None
    for name, wanted in changes.items():
        assert get(parsed.runs[0], name) == wanted, name
    assert not [issue for issue in parsed.issues if issue.severity == "error"]


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        (LORA, {"model.name": "other"}),
        (LORA, {"parallelism.world_size": 16}),
        (LORA, {"no.such_field": 1}),
        (LORA, {"sequence.length": "long"}),
        (LORA, {"sequence.length": 0}),
        (FULL, {"model.quantization": Quantization("bnb", 4, "nf4", True)}),  # hparams/parser.py:237
        (LORA.replace("sft", "dpo"), {"loss.kind": "liger"}),  # model/loader.py:142
        (LORA.replace(": llama\n", ": opt\n", 1), {"loss.kind": "liger"}),  # liger_kernel.py:94
        (FULL + "pure_bf16: true\ndeepspeed: ds.json\n", {"parallelism.zero.stage": 3}),  # hparams/parser.py:385
        (LORA + "quantization_bit: 8\n", {"parallelism.zero.stage": 3}),  # model_utils/quantization.py:199
        (FULL + "use_galore: true\n", {"parallelism.zero.stage": 2}),  # hparams/parser.py:519
        (
            FULL + "use_badam: true\n",
            {"parallelism.zero.stage": 2, "offload.optimizer": "cpu"},
        ),  # hparams/parser.py:394
        (FULL + "use_badam: true\nbadam_mode: ratio\n", {"parallelism.zero.stage": 3}),  # hparams/parser.py:395
        (FULL + "use_galore: true\n", {"method.kind": "lora"}),  # finetuning_args.py:616
        (LORA + "quantization_bit: 4\n", {"method.kind": "full"}),
        (FULL + "use_muon: true\n", {"method.kind": "lora", "optimizer.name": "adamw_torch"}),
        (LORA, {"optimizer.name": "no_such_optimizer"}),
        (FULL + "deepspeed: ds.json\nbf16: true\n", {"precision.trainable_dtype": "bfloat16"}),
        (LORA, {"checkpointing.mode": "selective"}),
        (V1_BASE, {"optimizer.name": "adamw_8bit"}),
        (V1_BASE, {"parallelism.fsdp.cpu_offload": True}),
        (V1_FSDP, {"parallelism.fsdp.strategy": "FULL_SHARD"}),
        (LORA, {"parallelism.fsdp.cpu_offload": True}),
        (LORA + "eval_strategy: steps\nval_size: 0.1\nearly_stopping_steps: 3\n", {"evaluation.enabled": False}),
        (LORA + "eval_strategy: steps\nval_size: 0.1\nsave_strategy: best\n", {"evaluation.enabled": False}),
        (LORA + "use_asft_loss: true\n", {"loss.kind": "liger"}),  # train/sft/trainer.py:108
        (FULL.replace("sft", "dpo"), {"method.reference_model": "shared"}),  # without adapters there is a copy
        (FULL + "deepspeed: examples/deepspeed/ds_z3_config.json\n", {"offload.parameters": "cpu"}),  # no such file
        (FULL + "deepspeed: examples/deepspeed/ds_z3_config.json\n", {"parallelism.zero.overlap_comm": False}),
        (FULL + "deepspeed: own/ds_z3_config.json\n", BOTH),  # a folder that nobody ships
    ],
)
def test_what_llama_factory_cannot_say_is_not_offered(text: str, changes: dict[str, Any]) -> None:
    assert edited(text, changes, {"ds.json": DEEPSPEED}) is None


def test_a_key_is_set_where_it_stands_and_added_where_it_does_not() -> None:
    parsed = llamafactory.parse(document(LORA + "cutoff_len: 8192\n"), context())
    edits = llamafactory.edits(parsed, parsed.runs[0], {"sequence.length": 4096, "batch.micro_batch_size": 1})
    assert edits == (
        Edit("/repo/train.yaml", ("cutoff_len",), "set", 4096),
        Edit("/repo/train.yaml", ("per_device_train_batch_size",), "set", 1),
    )


@pytest.mark.parametrize("text", ["pure_bf16: true\n", "pure_bf16: true\nbf16: false\n"])
def test_zero_3_replaces_pure_bf16_by_bf16(text: str) -> None:
    """LLaMA-Factory refuses `pure_bf16` under ZeRO-3 (hparams/parser.py:385), whose masters are fp32 in any case."""
    parsed = edited(FULL + text, {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3})
    assert parsed is not None
    run = parsed.runs[0]
    assert (run.parallelism.zero.stage, run.precision.compute, run.precision.master_weights) == (3, "bfloat16", True)
    assert parsed.raw["config"]["bf16"] is True and "pure_bf16" not in parsed.raw["config"]


LAUNCH = "distributed_type: DEEPSPEED\nnum_processes: 8\nmixed_precision: fp16\ndeepspeed_config:\n  zero_stage: 2\n"


def test_inline_options_of_a_launch_file_are_changed_there() -> None:
    command = (
        "accelerate launch --config_file launch.yaml src/train.py --stage sft --do_train --model_name_or_path llama"
    )
    command += " --dataset d --template default --finetuning_type lora --output_dir o --fp16\n"
    workspace = in_memory({"run.sh": command, "launch.yaml": LAUNCH})
    (started,) = workspace.documents("run.sh")
    analysed = Engine(()).analyse(started, workspace.context())
    assert analysed.parsed is not None
    found = llamafactory.edits(analysed.parsed, analysed.parsed.runs[0], {"parallelism.zero.stage": 3})
    assert found == (Edit("launch.yaml", ("deepspeed_config", "zero_stage"), "set", 3),)
