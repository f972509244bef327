"""What scripts ask of their machine and of dtypes, as huggingface/peft's examples/sft/utils.py does."""

from __future__ import annotations

import memlint

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
