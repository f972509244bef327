"""What scripts ask of their machine and of dtypes, as huggingface/peft's examples/sft/utils.py does."""

from __future__ import annotations

import pytest

import memlint
from memlint.repository.workspace import in_memory

SCRIPT = """\
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

storage = getattr(torch, "{storage}")
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage=storage)
dtype = storage if storage and storage.is_floating_point else torch.float32
kwargs = {{"torch_dtype": dtype}}
if torch.xpu.is_available():
    kwargs["attn_implementation"] = "eager"
else:
    kwargs["attn_implementation"] = "flash_attention_2"
model = AutoModelForCausalLM.from_pretrained("mistralai/Mistral-7B-v0.1", quantization_config=bits, **kwargs)
args = SFTConfig(output_dir="o", max_length=2048, bf16=True)
SFTTrainer(model=model, args=args, peft_config=LoraConfig(r=8, target_modules="all-linear"), train_dataset=d).train()
"""


def test_a_branch_for_another_accelerator_is_not_taken() -> None:
    run = memlint.estimate(SCRIPT.format(storage="uint8"), path="train.py", gpu="A100-80GB", gpus=1).run
    assert (run.attention.implementation, run.model.weights_dtype) == ("flash_attention_2", "float32")


def test_a_storage_of_numbers_with_a_point_is_the_dtype() -> None:
    run = memlint.estimate(SCRIPT.format(storage="bfloat16"), path="train.py", gpu="A100-80GB", gpus=1).run
    assert run.model.weights_dtype == "bfloat16"


@pytest.mark.parametrize(
    ("library", "trains_on_a_gpu"), [("trl", True), ("optimum.habana.trl", False), ("optimum.neuron", False)]
)
def test_a_trainer_of_another_accelerator_is_no_run(library: str, trains_on_a_gpu: bool) -> None:
    """optimum-habana 1.18 examples/trl/sft.py: GaudiSFTTrainer and GaudiSFTConfig."""
    prefix = "Gaudi" if "habana" in library else ""
    script = f"""\
from {library} import {prefix}SFTConfig, {prefix}SFTTrainer
args = {prefix}SFTConfig(output_dir="o", max_length=2048)
{prefix}SFTTrainer(model="Qwen/Qwen2.5-7B", args=args, train_dataset=d).train()
"""
    workspace = in_memory({"train.py": script})
    assert (len(workspace.documents("train.py")) > 0) is trains_on_a_gpu
