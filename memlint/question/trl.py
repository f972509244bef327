"""A question as TRL's YAML (1.16), for `trl sft --config`."""

from __future__ import annotations

from typing import Any

from memlint.errors import UsageError
from memlint.question.model import Question
from memlint.question.optimizers import SWITCHES, optimizer_keys
from memlint.question.sharding import deepspeed_name

DTYPES = {"bf16": "float32", "fp16": "float32", "fp32": "float32", "pure_bf16": "bfloat16"}


def training_keys(question: Question, model: str) -> dict[str, Any]:
    """The keys of a training run; the question has its defaults. Raises UsageError."""
    _refuse(question)
    adapters = question.method != "full"
    found: dict[str, Any] = {"model_name_or_path": model}
    found["dtype"] = "bfloat16" if adapters and question.dtype == "bf16" else DTYPES[question.dtype]
    if question.attention:
        found["attn_implementation"] = question.attention
    if adapters:
        found |= {"use_peft": True, "lora_r": question.rank, "lora_target_modules": "all-linear"}
    if question.method == "dora":
        found["use_dora"] = True
    if question.bits:
        found[f"load_in_{question.bits}bit"] = True
    found |= {"dataset_name": "trl-lib/Capybara", "max_length": question.length}
    if question.packing is not None:
        found["packing"] = question.packing
    found |= {"output_dir": "runs/sft", "per_device_train_batch_size": question.batch}
    found |= {"gradient_accumulation_steps": question.accumulation, **optimizer_keys(question)}
    found |= {"bf16": question.dtype in ("bf16", "pure_bf16"), "fp16": question.dtype == "fp16"}
    found["gradient_checkpointing"] = question.checkpointing
    if question.liger is not None:
        found["use_liger_kernel"] = question.liger
    if deepspeed_name(question):
        found["deepspeed"] = deepspeed_name(question)
    return found


def _refuse(question: Question) -> None:
    """Raises UsageError for what `trl sft` has no key for."""
    if question.inference or question.stage != "sft" or question.method == "freeze":
        what = "--inference" if question.inference else f"--stage {question.stage} --method {question.method}"
        raise UsageError(f"--framework trl has no file for {what}: take llamafactory")
    if question.optimizer in SWITCHES:
        raise UsageError(f"--framework trl has no switch for --optimizer {question.optimizer}: take llamafactory")
