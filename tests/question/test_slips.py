"""Plausible slips on the command line: each is understood, or answered with what was probably meant and exit code 2."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.commands.running import memlint

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "llamafactory" / "qwen2_5_7b_lora_sft.yaml"
LLAMA = "--model llama-3-8b"

# what is typed, and (field of the question's files, value) that it stands for
UNDERSTOOD = {
    f"{LLAMA} --gpu h100": "1 x H100-80GB",
    f"{LLAMA} --gpu 'A100 80'": "1 x A100-80GB",
    f"{LLAMA} --gpu A100_80G": "1 x A100-80GB",
    f"{LLAMA} --gpu 'rtx 4090'": "1 x RTX 4090",
    f"{LLAMA} --gpu '4090 24GB'": "1 x RTX 4090",
    f"{LLAMA} --gpu 'NVIDIA GeForce RTX 4090'": "1 x RTX 4090",
    f"{LLAMA} --gpu 3090ti": "1 x RTX 3090 Ti",
    f"{LLAMA} --gpu 4090x2": "2 x RTX 4090",
    f"{LLAMA} --gpu 8xH100": "8 x H100-80GB",
    f"{LLAMA} --gpu '2 x RTX 3090'": "2 x RTX 3090",
    f"{LLAMA} --gpu 24GB": "1 x 24GiB",
    "--model llama3-8b": "meta-llama/Meta-Llama-3-8B:",
    "--model Meta-Llama-3-8B-Instruct": "meta-llama/Meta-Llama-3-8B-Instruct:",
    "--model META-LLAMA/meta-llama-3-8b": "8.05 B parameters",
    "--model qwen/Qwen2.5-7b": "7.64 B parameters",
    "--model llama3.1:8b": "meta-llama/Meta-Llama-3.1-8B:",
    "--model https://huggingface.co/meta-llama/Llama-3.1-8B": "8.05 B parameters",
    "--model TheBloke/Llama-2-7B-GPTQ": "4-bit base",
    "--model Qwen/Qwen2.5-7B-Instruct-AWQ": "4-bit base",
    "--model unsloth/llama-3-8b-bnb-4bit": "4-bit base",
    "--model deepseek-r1-distill-llama-8b": "8.05 B parameters",
    f"{LLAMA} --method QLoRA": "4-bit base",
    f"{LLAMA} --optimizer AdamW": "optim",
    f"{LLAMA} --optimizer adam8bit": "optim",
    f"{LLAMA} --attention flash": "8.05 B parameters",
    "--model gpt2 --inference": "1 x 768 tokens",
    "--model bert-base-uncased --inference": "the positions that the model has",
}
SLIPS = {
    f"{LLAMA} --gpu a100": "A100-40GB or A100-80GB",
    f"{LLAMA} --gpu h1000": "H100-80GB",
    f"{LLAMA} --gpu foo": "memlint cards",
    f"{LLAMA} --gpu '4090 32GB'": "unknown GPU",
    "--model llama-3": "did you mean",
    "--model lama-3-8b": "did you mean",
    "--model mistral": "did you mean",
    "--model gpt-4": "not in memlint's catalog",
    "--model 8B": "memlint models",
    "--model ./nothere": "config.json",
    "--model meta-llama/Llama-3.1-8B@main": "did you mean",
    "--model TheBloke/Llama-2-7B-GGUF": "--model meta-llama/Llama-2-7b-hf, with --bits 4",
    "--model llama-3.1-8b-q4_K_M": "--bits 4",
    "--model bartowski/Meta-Llama-3.1-8B-Instruct-GGUF --inference": "Meta-Llama-3.1-8B-Instruct",
    "nothere.yaml": "no such file",
    f"{LLAMA} --length 4k": "did you mean 4096?",
    f"{LLAMA} --length 4,096": "did you mean 4096?",
    f"{LLAMA} --length 4096.0": "did you mean 4096?",
    f"{LLAMA} --length 0": "--length 0: wants a whole number from 1",
    f"{LLAMA} --batch 0": "--batch 0: wants a whole number from 1",
    f"{LLAMA} --batch -1": "wants a whole number",
    f"{LLAMA} --batch auto": "wants a whole number",
    f"{LLAMA} --inference --context 128k": "did you mean 131072?",
    f"{LLAMA} --gpus 8x": "did you mean 8?",
    f"{LLAMA} --gpus two": "wants a whole number",
    f"{LLAMA} --bits 4bit": "did you mean 4?",
    f"{LLAMA} --bits 16": "one of 4, 8",
    f"{LLAMA} --zero stage3": "did you mean 3?",
    f"{LLAMA} --zero 4": "one of 0, 1, 2, 3",
    f"{LLAMA} --method lora4": "did you mean lora?",
    f"{LLAMA} --dtype bf-16": "did you mean bf16?",
    f"{LLAMA} --dtype int8": "one of bf16",
    f"{LLAMA} --optimizer adamw8bit": "did you mean adamw_8bit?",
    f"{LLAMA} --attention fa-2": "one of sdpa",
    f"{LLAMA} --inference --kv-dtype int4": "one of auto, fp8",
    f"{LLAMA} --inference --memory-share 90": "did you mean 0.9?",
    f"{LLAMA} --inference --memory-share 90%": "did you mean 0.9?",
    f"{LLAMA} --inference --engine vlm": "did you mean vllm?",
    f"{LLAMA} --context 4096": "add --inference",
    f"{LLAMA} --inference --length 4096": "--length is about training",
    f"{LLAMA} --lenght 4096": "did you mean --length?",
    f"{LLAMA} --seq-len 4096": "that is --length here",
    f"{LLAMA} --batch-size 4": "that is --batch here",
    f"{LLAMA} --qlora": "that is --method qlora here",
    f"{LLAMA} --flash-attn": "that is --attention flash_attention_2 here",
    f"{LLAMA} --load-in-4bit": "--bits 4",
    f"{LLAMA} --inference --max-model-len 8192": "that is --context here",
    f"{LLAMA} --inference --tensor-parallel-size 2": "that is --gpus here",
    "--layers 32": "--hidden",
    "--layers 32 --hidden 4096 --heads 33": "does not divide",
    f"{FILE} --length 4096": "--set KEY=VALUE",
    f"{FILE} --set cutoff_len": "wants KEY=VALUE",
    f"{FILE} --set per_device_train_batch_sizes=4": "did you mean `per_device_train_batch_size`?",
    f"{FILE} --set nothing=1": "unknown key `nothing`",
    f"{FILE} --set gpus=x": "wants a whole number",
    f"{FILE} --set gpu=foo": "unknown GPU",
    f"{FILE} --sweep cutoff_len=1k..8k": "wants whole numbers",
}
# Values that the framework refuses: the column says so in place of a figure.
REFUSED = {
    "cutoff_len=4k": "wants an integer",
    "cutoff_len=-5": "cutoff_len",
    "per_device_train_batch_size=0": "per_device_train_batch_size",
    "optim=adamw8bit": "did you mean `adamw_8bit`?",
    "finetuning_type=lora4": "did you mean `lora`?",
    "quantization_bit=3": "4 or 8 bits, not 3",
    "batch_size=4": "per_device_train_batch_size",
}


@pytest.mark.parametrize("typed", UNDERSTOOD)
def test_another_spelling_is_understood(typed: str, tmp_path: Path) -> None:
    done = memlint(tmp_path, "estimate", *shlex.split(typed))
    assert done.code == 0, done.err
    assert UNDERSTOOD[typed] in done.out


@pytest.mark.parametrize("typed", SLIPS)
def test_a_slip_gets_no_figure(typed: str, tmp_path: Path) -> None:
    done = memlint(tmp_path, "estimate", *shlex.split(typed))
    assert (done.code, done.out) == (2, "")
    assert SLIPS[typed] in done.err


@pytest.mark.parametrize("change", REFUSED)
def test_a_value_that_the_framework_refuses_will_not_start(change: str, tmp_path: Path) -> None:
    done = memlint(tmp_path, "estimate", str(FILE), "--set", change)
    assert f"{change}: will not start" in done.out and REFUSED[change] in done.out
    found = json.loads(memlint(tmp_path, "estimate", str(FILE), "--set", change, "--format", "json").out)
    assert found["variants"][0]["refused"]


def test_a_verb_of_files_says_how_a_question_becomes_one(tmp_path: Path) -> None:
    done = memlint(tmp_path, "plan", "--model", "llama-3-8b")
    assert done.code == 2 and "--write-config FILE" in done.err
