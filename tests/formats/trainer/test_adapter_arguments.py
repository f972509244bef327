"""Arguments of LoraConfig in a script that say which modules get an adapter, and how large ones."""

from __future__ import annotations

import pytest

from memlint.api.calls import estimate

SCRIPT = """\
import torch
from transformers import AutoModelForCausalLM
from peft import LoraConfig
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B", torch_dtype=torch.bfloat16)
args = SFTConfig("out", per_device_train_batch_size=2, max_length=1024, bf16=True, gradient_checkpointing=True)
SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=16, task_type="CAUSAL_LM", {arguments})).train()
"""
QUERY = 16 * (3584 + 3584)  # parameters of one query's adapter


@pytest.mark.parametrize(
    ("arguments", "trained"),
    [
        ('target_modules=["q_proj"]', 28 * QUERY),
        ('target_modules=["q_proj"], layers_to_transform=27', QUERY),
        ('target_modules=["q_proj"], layers_to_transform=list(range(20, 28))', 8 * QUERY),
        ('target_modules=["q_proj"], layers_to_transform=[i for i in range(28) if i % 2]', 14 * QUERY),
        ('target_modules=["q_proj"], rank_pattern={"q_proj": 64}', 4 * 28 * QUERY),
        ('target_modules=["q_proj"], rank_pattern={"v_proj": 64}', 28 * QUERY),
    ],
)
def test_where_adapters_are(arguments: str, trained: int) -> None:
    found = estimate(SCRIPT.format(arguments=arguments), path="train.py", isolated=True)
    assert found.report.model.trainable_parameters == trained


@pytest.mark.parametrize(
    ("argument", "field"),
    [
        ("layers_to_transform", "method.layers_to_transform"),
        ("rank_pattern", "method.rank_pattern"),
        ("exclude_modules", "method.exclude_modules"),
    ],
)
def test_what_the_script_computes_is_unknown(argument: str, field: str) -> None:
    arguments = f'target_modules="all-linear", {argument}=found()'
    found = estimate(SCRIPT.format(arguments=arguments), path="train.py", isolated=True)
    assert [one.field for one in found.unknown] == [field]
