"""Unsloth's trainers choose the half precision that the card has (unsloth 2026.10.9 models/rl.py:2673-2678)."""

from __future__ import annotations

import pytest

import memlint

SCRIPT = """\
from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Meta-Llama-3.1-8B", max_seq_length=2048)
model = FastLanguageModel.get_peft_model(model, r=16, use_gradient_checkpointing="unsloth")
args = SFTConfig(per_device_train_batch_size=2, output_dir="outputs"{flags})
trainer = SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=data, args=args)
trainer.train()
"""


@pytest.mark.parametrize(
    ("gpu", "flags", "precision"),
    [
        ("T4", "", "float16"),
        ("A100-80GB", "", "bfloat16"),
        (None, "", "bfloat16"),
        ("A100-80GB", ", fp16=True", "float16"),
        ("T4", ", bf16=True", "bfloat16"),
    ],
)
def test_without_a_word_the_card_decides(gpu: str | None, flags: str, precision: str) -> None:
    found = memlint.estimate(SCRIPT.format(flags=flags), path="train.py", gpu=gpu, gpus=1)
    assert found.run.precision.compute == precision


@pytest.mark.parametrize("asks", ["is_bfloat16_supported", "is_bf16_supported"])
@pytest.mark.parametrize(("gpu", "precision"), [("T4", "float16"), ("L4", "bfloat16")])
def test_its_own_question_is_about_arithmetic(asks: str, gpu: str, precision: str) -> None:
    flags = f", fp16=not {asks}(), bf16={asks}()"
    script = f"from unsloth import {asks}\n{SCRIPT.format(flags=flags)}"
    assert memlint.estimate(script, path="train.py", gpu=gpu, gpus=1).run.precision.compute == precision


@pytest.mark.parametrize(
    ("line", "precision"),
    [("import unsloth", "float16"), ("from unsloth import FastModel", "float16"), ("import torch", "bfloat16")],
)
def test_an_import_of_unsloth_replaces_torchs_question(line: str, precision: str) -> None:
    """Unsloth 2024.8 __init__.py:88-97, 2026.10.9 _gpu_init.py:562-577: torch's own counts emulation."""
    script = (
        f"{line}\nimport torch\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
        "half = torch.cuda.is_bf16_supported()\n"
        "args = TrainingArguments(bf16=half, fp16=not half, per_device_train_batch_size=1, output_dir='o')\n"
        "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"
        "Trainer(model=model, args=args, train_dataset=data).train()\n"
    )
    assert memlint.estimate(script, path="train.py", gpu="T4", gpus=1).run.precision.compute == precision


def test_of_a_whole_model_no_adapter_is_made() -> None:
    """Unsloth prints "Full finetuning is enabled, so .get_peft_model has no effect"."""
    script = SCRIPT.format(flags="").replace("max_seq_length=2048", "max_seq_length=2048, full_finetuning=True")
    run = memlint.estimate(script, path="train.py", gpu="A100-80GB", gpus=1).run
    assert (run.method.kind, run.model.quantization.bits) == ("full", 16)
