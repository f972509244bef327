"""A plan that is likely to fit, beside sure ones that cut more of the data or in place of none."""

from __future__ import annotations

import pytest

import memlint

UNSLOTH = """\
from unsloth import FastLanguageModel
from trl import SFTTrainer, SFTConfig

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/Qwen3-14B", max_seq_length={}, load_in_4bit=False)
model = FastLanguageModel.get_peft_model(model, r=16, lora_alpha=32, use_gradient_checkpointing="unsloth")
args = SFTConfig(output_dir="o", per_device_train_batch_size=2, gradient_accumulation_steps=4, optim="adamw_8bit")
SFTTrainer(model=model, tokenizer=tokenizer, train_dataset=data, args=args).train()
"""
NOT_SURE = "likely, not sure"


def likely_titles(length: int, gpu: str) -> list[str]:
    (row,) = memlint.plan(UNSLOTH.format(length), path="train.py", gpu=gpu, gpus=1).runs
    found = [one for one in row["advice"] if NOT_SURE in one["note"]]
    assert all(one["after"]["figure"] < one["after"]["usable"] < one["after"]["unclamped_high"] for one in found)
    return [one["title"] for one in found]


@pytest.mark.parametrize(("length", "gpu", "told"), [(8192, "T4", 1), (2048, "RTX4090", 0), (2048, "A100-40GB", 0)])
def test_what_is_likely_is_told_where_nothing_is_sure(length: int, gpu: str, told: int) -> None:
    """Unsloth goes by what memory is free, and the upper end of what 4 bits need is over a T4 at any length."""
    titles = likely_titles(length, gpu)
    assert len(titles) == told and all("4-bit base (QLoRA)" in title for title in titles)
