"""A script that goes on with its own adapter, or makes one: artidoro/qlora's qlora.py and its many copies."""

from __future__ import annotations

import pytest

import memlint
from memlint.run import UNKNOWN

SCRIPT = """\
import bitsandbytes as bnb
import torch
from os.path import exists, isdir, join
from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Seq2SeqTrainer, Seq2SeqTrainingArguments

def find_all_linear_names(model):
    lora_module_names = set()
    for name, module in model.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            names = name.split('.')
            lora_module_names.add(names[0] if len(names) == 1 else names[-1])
    if 'lm_head' in lora_module_names:
        lora_module_names.remove('lm_head')
    return list(lora_module_names)

def last_checkpoint(folder):
    if isdir(folder):
        return join(folder, "checkpoint")
    return None

checkpoint = last_checkpoint("out")
bits = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)
model = AutoModelForCausalLM.from_pretrained("huggyllama/llama-7b", quantization_config=bits)
model = prepare_model_for_kbit_training(model)
if checkpoint is not None:
    model = PeftModel.from_pretrained(model, checkpoint, is_trainable=True)
else:
    modules = find_all_linear_names(model)
    model = get_peft_model(model, LoraConfig(r=64, lora_alpha=16, target_modules=modules, task_type="CAUSAL_LM"))
args = Seq2SeqTrainingArguments("out", per_device_train_batch_size=1, bf16=True, optim="paged_adamw_32bit")
trainer = Seq2SeqTrainer(model=model, args=args, train_dataset=data)
trainer.train()
"""


def test_the_adapter_that_is_made_is_the_one_that_goes_on() -> None:
    run = memlint.estimate(SCRIPT, path="qlora.py", gpu="RTX4090", gpus=1).run
    assert (run.method.kind, run.method.rank, run.method.targets) == ("lora", 64, ("all-linear",))


def test_an_adapter_of_a_folder_alone_says_its_rank_itself() -> None:
    begin, rest = SCRIPT.split("if checkpoint is not None:\n")
    script = (
        begin + 'model = PeftModel.from_pretrained(model, "adapter", is_trainable=True)\n' + rest[rest.index("args") :]
    )
    found = memlint.estimate(script, path="qlora.py", gpu="RTX4090", gpus=1)
    assert [one.field for one in found.unknown][:1] == ["method.rank"]


def test_an_adapter_of_another_program_where_the_script_makes_none() -> None:
    """Its folder may be there: without an adapter a model in 4 bits is refused, which nobody means."""
    begin, rest = SCRIPT.split("else:\n")
    found = memlint.check(begin + rest[rest.index("args") :], path="dpo.py")
    assert found.runs[0].run.method.kind is UNKNOWN
    assert not [one for one in found.findings if one.severity == "error"]


ELSEWHERE = (
    "torchrun run_clm_sft_with_peft.py --model_name_or_path huggyllama/llama-7b --per_device_train_batch_size 1 --fp16 "
    "--output_dir out --learning_rate 1e-4 --max_seq_length 512 --torch_dtype float16 {}\n"
)


@pytest.mark.parametrize(
    ("flags", "kind"),
    [
        ("--peft_path ziqingyang/chinese-alpaca-lora-7b", UNKNOWN),
        ("--adapter_ckpt a", UNKNOWN),
        ("--use_peft False --peft_path a", "full"),
        ("--lora_rank 8 --peft_path a", "lora"),
        ("--adapters_seen False", "full"),
        ("", "full"),
    ],
)
def test_a_flag_about_adapters_of_a_program_that_nobody_sees_leaves_open_what_trains(flags: str, kind: object) -> None:
    """Chinese-LLaMA-Alpaca's notebook goes on with an adapter in a script that the repository keeps elsewhere."""
    assert memlint.estimate(ELSEWHERE.format(flags), path="train.sh", gpu="T4", gpus=1).run.method.kind == kind


SECOND = """\
from trl import GRPOConfig, GRPOTrainer
from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained(model_name="{}", max_seq_length=1024, load_in_4bit=True)
args = GRPOConfig(output_dir="out", per_device_train_batch_size=8, num_generations=8, bf16=True)
GRPOTrainer(model=model, args=args, reward_funcs=[reward], train_dataset=data).train()
"""


@pytest.mark.parametrize("folder", ["./checkpoints/sft/qwen3-0.6b", "/data/qwen3-0.6b", "out/sft/qwen3-0.6b"])
def test_a_folder_in_4_bits_may_hold_the_adapter_of_an_earlier_stage(folder: str) -> None:
    found = memlint.check(SECOND.format(folder), path="grpo.py")
    assert found.runs[0].run.method.kind is UNKNOWN
    assert not [one for one in found.findings if one.severity == "error"]


def test_a_model_of_the_hub_in_4_bits_holds_none() -> None:
    found = memlint.check(SECOND.format("Qwen/Qwen3-0.6B"), path="grpo.py")
    assert [one.rule for one in found.findings if one.severity == "error"] == ["CFG008"]
