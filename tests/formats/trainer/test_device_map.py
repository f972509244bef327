"""A program that spreads its model's layers over all GPUs, started in several processes."""

from __future__ import annotations

import pytest

from memlint.api.calls import check

PROGRAM = """\
import os
import torch
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
device_map = "auto"
{condition}
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=torch.bfloat16, device_map=device_map)
Trainer(model=model, args=args, train_dataset=None).train()
"""
ONE_FOR_EACH = 'if int(os.environ.get("WORLD_SIZE", 1)) != 1:\n    device_map = {"": int(os.environ["LOCAL_RANK"])}'

ONE_FOR_A_RANK = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
own, _ = parser.parse_known_args()
device_map = "auto" if own.local_rank == -1 else None
"""


@pytest.mark.parametrize(
    ("launcher", "condition", "versions", "refused"),
    [
        ("torchrun --nproc_per_node 4", "", {}, True),
        ("accelerate launch --num_processes 2", "", {}, True),
        ("torchrun --nproc_per_node 4", "", {"accelerate": "0.21"}, False),
        ("torchrun --nproc_per_node 4", ONE_FOR_EACH, {}, False),
        ("torchrun --nproc_per_node 4", ONE_FOR_A_RANK, {}, True),  # it sets a variable alone
        ("deepspeed --num_gpus 4", ONE_FOR_A_RANK, {}, False),
        ("deepspeed --num_gpus 4 --no_local_rank", ONE_FOR_A_RANK, {}, True),
        ("python -m torch.distributed.launch --nproc_per_node 4", ONE_FOR_A_RANK, {}, False),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 4", ONE_FOR_A_RANK, {}, True),
        ("torchrun --nproc_per_node 1", "", {}, False),
        ("torchrun --nproc_per_node $N", "", {}, False),
        ("python", "", {}, False),
    ],
)
def test_accelerate_refuses_such_a_model_in_several_processes(
    launcher: str, condition: str, versions: dict[str, str], refused: bool
) -> None:
    command = f"{launcher} train.py --output_dir out --bf16 --per_device_train_batch_size 1\n"
    files = {"train.py": PROGRAM.format(condition=condition)}
    found = check(command, path="run.sh", files=files, versions=versions, isolated=True)
    said = [one.message for one in found.findings if one.severity == "error"]
    assert [message.startswith('`device_map="auto"` of train.py') for message in said] == [True] * refused


@pytest.mark.parametrize(("launcher", "refused"), [("deepspeed --include localhost:3", False), ("deepspeed", True)])
def test_the_processes_that_the_command_starts_count(launcher: str, refused: bool) -> None:
    """Whatever number of GPUs is asked about: with one process, the layers are on one GPU."""
    command = f"{launcher} train.py --output_dir out --bf16 --per_device_train_batch_size 1\n"
    files = {"train.py": PROGRAM.format(condition="")}
    found = check(command, path="run.sh", files=files, gpu="A100-80GB", gpus=8, isolated=True)
    assert any("device_map" in one.message for one in found.findings if one.severity == "error") == refused


def test_unsloth_loads_on_the_card_of_each_process() -> None:
    """unsloth 2026.3.4 models/loader.py, prepare_device_map."""
    loads = 'model, _ = FastLanguageModel.from_pretrained("Qwen/Qwen2.5-7B", device_map="balanced")\n'
    program = f"from unsloth import FastLanguageModel\nfrom trl import SFTConfig, SFTTrainer\n{loads}"
    program += 'SFTTrainer(model=model, args=SFTConfig(output_dir="o"), train_dataset=None).train()\n'
    found = check("torchrun --nproc_per_node 4 train.py\n", path="run.sh", files={"train.py": program}, isolated=True)
    assert not [one.message for one in found.findings if "device_map" in one.message]
