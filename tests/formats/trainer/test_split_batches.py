"""A program that makes one batch of all that are accumulated has a trainer that splits it again."""

from __future__ import annotations

import pytest

import memlint
from memlint.run import Unknown

SCRIPT = """\
from transformers import HfArgumentParser
from trl import GRPOConfig, GRPOTrainer

class OwnTrainer(GRPOTrainer):
    def _prepare_inputs(self, inputs):
        return inputs

args = GRPOConfig(output_dir="o", per_device_train_batch_size=2, gradient_accumulation_steps=16, num_generations=4)
{change}
trainer = OwnTrainer(model="Qwen/Qwen2.5-7B-Instruct", args=args, train_dataset=data, reward_funcs=[reward])
trainer.train()
"""
TIMES = "args.per_device_train_batch_size = args.per_device_train_batch_size * args.gradient_accumulation_steps"


@pytest.mark.parametrize("change", ["args.per_device_train_batch_size *= args.gradient_accumulation_steps", TIMES])
def test_the_size_of_a_forward_is_not_known(change: str) -> None:
    found = memlint.estimate(SCRIPT.format(change=change), path="grpo.py").run.batch.micro_batch_size
    assert isinstance(found, Unknown)


def test_what_else_is_done_to_it_is_followed() -> None:
    assert memlint.estimate(SCRIPT.format(change=""), path="grpo.py").run.batch.micro_batch_size == 2
    doubled = SCRIPT.format(change="args.per_device_train_batch_size *= 2")
    assert memlint.estimate(doubled, path="grpo.py").run.batch.micro_batch_size == 4
