"""What Unsloth's loader and its trainers add to a script: the card's half precision (unsloth 2026.10.9
models/rl.py:2673-2678), the engine of GRPO, rows that follow the generations."""

from __future__ import annotations

import pytest

import memlint
from memlint.run import Run

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


RL = """\
{first}from trl import GRPOConfig, GRPOTrainer
from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Meta-Llama-3.1-8B", max_seq_length=1024{loader})
model = FastLanguageModel.get_peft_model(model, r=16, use_gradient_checkpointing="unsloth")
args = GRPOConfig(per_device_train_batch_size=1, num_generations=6, output_dir="outputs"{arguments})
GRPOTrainer(model=model, processing_class=tokenizer, args=args, train_dataset=data).train()
"""
FAST = ", fast_inference=True, gpu_memory_utilization=0.6"
LENGTHS = ", max_prompt_length=256, max_completion_length=200"


def _grpo(loader: str = FAST, arguments: str = LENGTHS, first: str = "", gpu: str = "T4") -> Run:
    script = RL.format(loader=loader, arguments=arguments, first=first)
    return memlint.estimate(script, path="train.py", gpu=gpu, gpus=1).run


def test_vllm_shares_the_weights() -> None:
    rollout = _grpo().rollout
    assert (rollout.generator, rollout.share, rollout.share_of_free) == ("vllm_colocate", 0.6, True)
    assert rollout.shares_weights and rollout.sleep_level == 0
    assert _grpo(", fast_inference=True").rollout.share == 0.5
    assert _grpo("").rollout.generator == "model"


@pytest.mark.parametrize(("gpu", "share"), [("T4", 0.76), ("L4", 0.78375), ("A100-80GB", 0.87875)])
def test_in_standby_the_card_decides_its_share(gpu: str, share: float) -> None:
    by_variable = _grpo(first='import os\nos.environ["UNSLOTH_VLLM_STANDBY"] = "1"\n', gpu=gpu).rollout
    by_argument = _grpo(f"{FAST}, unsloth_vllm_standby=True", gpu=gpu).rollout
    for rollout in (by_variable, by_argument):
        assert (rollout.sleep_level, rollout.share_of_free) == (2, False)
        assert rollout.share == pytest.approx(share)


def test_rows_are_raised_to_the_generations() -> None:
    assert _grpo().batch.micro_batch_size == 6
    assert _grpo(arguments=f"{LENGTHS}, gradient_accumulation_steps=6").batch.micro_batch_size == 1


def test_no_sequence_is_longer_than_the_engine_takes() -> None:
    assert _grpo().sequence.length == 456
    assert _grpo(arguments=", max_completion_length=900").sequence.length == 1024
    assert _grpo(arguments=", max_prompt_length=n, max_completion_length=1024 - n").sequence.length == 1024


def test_weights_in_fp8_are_not_taken_for_others() -> None:
    script = RL.format(loader=f"{FAST}, load_in_4bit=False, load_in_fp8=True", arguments=LENGTHS, first="")
    found = memlint.estimate(script, path="train.py", gpu="L4", gpus=1)
    assert [one.field for one in found.unknown] == ["model.quantization.bits"]
    assert "load_in_fp8" in found.unknown[0].reason


def test_segments_grow_unless_a_sleeping_engine_needs_them_fixed() -> None:
    loop = SCRIPT.format(flags="")
    assert memlint.estimate(loop, path="train.py", gpus=1).run.stack.expandable_segments
    older = memlint.estimate(loop, path="train.py", gpus=1, versions={"torch": "2.1"})
    assert not older.run.stack.expandable_segments
    assert not _grpo(first='import os\nos.environ["UNSLOTH_VLLM_STANDBY"] = "1"\n').stack.expandable_segments
    assert _grpo().stack.expandable_segments
