"""QLoRA fine-tuning with TRL, as a script: memlint reads it without running it.

    memlint estimate examples/python/train_qlora.py

The batch stands in a constant, the length in the default of an option: findings point there, fixes change them there.
It is tight on the card that the comment below names.
"""
# memlint: gpu=RTX4090 gpus=1

import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from trl import SFTConfig, SFTTrainer

BATCH = 4


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="Qwen/Qwen2.5-7B-Instruct")
    parser.add_argument("--max-length", type=int, default=8192)
    options = parser.parse_args()

    four_bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)
    model = AutoModelForCausalLM.from_pretrained(
        options.model, dtype=torch.bfloat16, quantization_config=four_bits, attn_implementation="sdpa"
    )
    arguments = SFTConfig(
        output_dir="out",
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=4,
        gradient_checkpointing=True,
        max_length=options.max_length,
        bf16=True,
        loss_type="nll",
    )
    adapter = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", lora_dropout=0.05)
    data = load_dataset("trl-lib/Capybara", split="train")
    SFTTrainer(model=model, args=arguments, train_dataset=data, peft_config=adapter).train()


if __name__ == "__main__":
    main()
