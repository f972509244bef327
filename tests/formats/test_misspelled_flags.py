"""A flag that misspells one of a program ends the run; a flag of another release, or of one's own, does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.running import memlint, write

SWIFT = "swift sft --model Qwen/Qwen2.5-7B-Instruct --tuner_type lora --per_device_train_batch_size 1 --max_length 64"
OPENRLHF = "python -m openrlhf.cli.train_sft --pretrain meta-llama/Llama-3.1-8B --zero_stage 2 --train_batch_size 8"


@pytest.mark.parametrize(
    ("command", "flag", "meant"),
    [
        (SWIFT, "lora_rnak 8", "lora_rank"),
        (SWIFT, "gradient_accumalation_steps 8", "gradient_accumulation_steps"),
        (OPENRLHF, "micro_train_batch_sizee 8", "micro_train_batch_size"),
    ],
)
def test_a_slip_is_an_error_with_the_flag_that_was_meant(tmp_path: Path, command: str, flag: str, meant: str) -> None:
    write(tmp_path, {"train.sh": f"{command} --{flag}\n"})
    told = memlint(tmp_path, "check", "train.sh", "--format", "concise").out
    assert f"error CFG001 unknown key `{flag.split()[0]}`: did you mean `{meant}`?" in told
    fixed = memlint(tmp_path, "fix", "train.sh", "--diff", "--unsafe", "--rule", "CFG001").out
    assert f"--{meant} 8" in fixed


@pytest.mark.parametrize(
    "flags",
    [
        "--lora_ran 8",  # argparse takes the beginning of a name
        "--our_own_switch true",
        "--lora_rnak 8 --ignore_args_error true",
    ],
)
def test_what_the_parser_takes_is_not_reported(tmp_path: Path, flags: str) -> None:
    write(tmp_path, {"train.sh": f"{SWIFT} {flags}\n"})
    assert "CFG001" not in memlint(tmp_path, "check", "train.sh").out
