"""TRL's own defaults of the learning rate."""

from __future__ import annotations

import pytest

import memlint

SCRIPT = """\
from transformers import TrainingArguments
from trl import {0}Config, {0}Trainer

args = {1}(output_dir="out", per_device_train_batch_size=4, bf16=True{2})
{0}Trainer(model="Qwen/Qwen3-0.6B", args=args, train_dataset=data).train()
"""


def _rate(trainer: str, arguments: str = "", more: str = "", **versions: str) -> object:
    script = SCRIPT.format(trainer, arguments or f"{trainer}Config", more)
    return memlint.estimate(script, path="train.py", versions=versions).run.optimizer.learning_rate


@pytest.mark.parametrize(
    ("trainer", "release", "rate"),
    [
        ("SFT", "1.16", 2e-5),
        ("SFT", "0.12", 2e-5),
        ("SFT", "0.11", 5e-5),
        ("DPO", "1.16", 1e-6),
        ("DPO", "0.11", 5e-5),
        ("KTO", "0.11", 5e-7),
        ("Reward", "1.16", 1e-4),
        ("Reward", "0.23", 5e-5),
        ("GRPO", "0.14", 1e-6),
    ],
)
def test_each_configuration_has_its_own(trainer: str, release: str, rate: float) -> None:
    assert _rate(trainer, trl=release) == rate


def test_what_is_written_counts() -> None:
    assert _rate("SFT", more=", learning_rate=1e-4") == 1e-4


def test_arguments_of_transformers_keep_theirs() -> None:
    assert _rate("SFT", "TrainingArguments") == 5e-5


ENGINE = """\
{"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
 "optimizer": {"type": "AdamW", "params": {"lr": RATE}}}
"""


@pytest.mark.parametrize(("rate", "refused"), [("2e-5", 0), ("5e-5", 1)])
def test_deepspeed_is_compared_with_them(rate: str, refused: int) -> None:
    script = SCRIPT.format("SFT", "SFTConfig", ', deepspeed="ds.json"')
    found = memlint.check(script, path="train.py", files={"ds.json": ENGINE.replace("RATE", rate)})
    errors = [one.rule for one in found.findings if one.severity == "error"]
    assert errors == ["CFG008"] * refused
