"""Plausible slips on the command line: each is understood, or answered with what was probably meant and exit code 2."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from memlint.cli import main
from tests.commands.running import Done

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
    "--model mistral-nemo": "mistralai/Mistral-Nemo-Base-2407",
    "--model falcon-40b --inference --gpu A100-80GB --gpus 2": "one after the other on several cards",
    "--model falcon-180b --inference --gpus auto": "no bf16 for a model in bf16",
    "--model bert-base-uncased --inference": "the positions that the model has",
    f"{LLAMA} --gpu 8xH100 --gpus 16": "16 x H100-80GB",
    f"{LLAMA} --gpus-per-node 8": "one machine",
    f"{LLAMA} --inference --gpu H100 --memory-share 0.8": "a share of the card is what a server fills",
    f"{LLAMA} --length 16384": "which has 8192 positions (DAT001)",
    f"{LLAMA} --attention flash_attention_2 --gpu T4": "FlashAttention does not run on T4",
    f"{LLAMA} --dtype bf16 --gpu T4": "no bfloat16 arithmetic",
    f"{LLAMA} --stage rm --liger": "the loss is the plain one",
    f"{LLAMA} --sweep optim=adafactor --set batch=2".replace("optim=", "optimizer="): "adafactor",
    f"{LLAMA} --inference --engine vllm --gpu H100 --context 16384": "refuses to start",
    f"{FILE} --model meta-llama/Llama-3.1-8B": "meta-llama/Llama-3.1-8B: 8.07 B parameters",
    f"{FILE} --model llama-3-8b": "meta-llama/Meta-Llama-3-8B: 8.07 B parameters",
    f"{FILE} --model phi-2 --set cutoff_len=1024": "5.27",
    f"{FILE} --set model.name=microsoft/phi-2": "(-9.07)",
    f"{FILE} --set cutoff_len=null": "15.80",
    f"{FILE} --sweep optim=adafactor,foo": "will not start (CFG003)",
}
SLIPS = {
    f"{LLAMA} --gpu a100": "sold in several sizes: say A100-40GB, A100-64GB or A100-80GB",
    f"{LLAMA} --gpu h1000": "H100-80GB",
    f"{LLAMA} --gpu foo": "memlint cards",
    f"{LLAMA} --gpu '4090 32GB'": "unknown GPU",
    "--model llama-3": "did you mean",
    "--model phi-2 --method dpo": "did you mean --stage dpo?",
    "--model lama-3-8b": "did you mean",
    "--model mistral": "did you mean",
    "--model gpt-4": "not in memlint's catalog",
    "--model 8B": "memlint models",
    "--model ./nothere": "config.json",
    "--model meta-llama/Llama-3.1-8B@main": "did you mean",
    "--model TheBloke/Llama-2-7B-GGUF": "--model meta-llama/Llama-2-7b-hf, with --bits 4",
    "--model llama-3.1-8b-q4_K_M": "--bits 4",
    "--model bartowski/Meta-Llama-3.1-8B-Instruct-GGUF --inference": "Meta-Llama-3.1-8B-Instruct",
    "--model microsoft/bitnet-b1.58-2B-4T --inference": "packed by bitnet",
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
    f"{LLAMA} --method full --rank 16": "it trains no adapters",
    f"{LLAMA} --method full --bits 4": "quantised weights do not train",
    f"{LLAMA} --offload all": "needs --zero 2, --zero 3 or --fsdp",
    f"{LLAMA} --zero 2 --offload all": "only ZeRO-3 moves parameters",
    f"{LLAMA} --zero 3 --fsdp": "sharded by one of them",
    f"{LLAMA} --fsdp 3": "one of 1, 2",
    f"{LLAMA} --gpus 3 --gpus-per-node 8": "counts those of all machines",
    f"{LLAMA} --gpus 12 --gpus-per-node 8": "counts those of all machines",
    f"{LLAMA} --gpu '8xH100' --gpus 4": "the name says 8",
    f"{LLAMA} --gpu ''": "the name is empty",
    "--model ''": "the name is empty",
    "--model ' '": "the name is empty",
    f"{LLAMA} --inference --memory-share 0.9 --engine transformers": "take vllm or sglang",
    f"{LLAMA} --inference --engine vllm --attention eager --gpu H100": "chooses its own kernels",
    f"{LLAMA} --inference --engine vllm --bits 4 --gpu H100": "GPTQ, AWQ or FP8",
    f"{LLAMA} --inference --dtype pure_bf16": "about training",
    f"{LLAMA} --inference --context 100 --new-tokens 100": "must be smaller",
    f"{LLAMA} --inference --bits 8 --gpus 2": "take --bits 4",
    f"{LLAMA} --inference --framework trl": "take llamafactory",
    f"{LLAMA} --inference --zero 3": "about training",
    f"{LLAMA} --inference --checkpointing": "about training",
    f"{LLAMA} --heads 33": "does not divide --hidden 4096",
    "--layers 32 --hidden 4096 --kv-heads 7": "does not divide --heads 32",
    "--hidden 4096": "--layers and --hidden are needed",
    f"{LLAMA} --with launch.yaml": "about files",
    f"{LLAMA} --exclude x": "about files",
    f"{LLAMA} --list-files": "about files",
    f"{LLAMA} --stdin-filename x": "about files",
    f"{LLAMA} --format yaml": "text or json",
    f"{LLAMA} --versions trasformers=4.50": "did you mean transformers?",
    f"{LLAMA} --versions transformers=abc": "write a version",
    f"{LLAMA} --set batch=x": "wants a whole number",
    f"{LLAMA} --set batchs=3": "did you mean --batch?",
    f"{LLAMA} --set batch=1 --set batch=2": "the key has one value",
    f"{LLAMA} --sweep batch=": "wants KEY=FROM..TO",
    f"{LLAMA} --sweep batch=4..1": "the range is empty",
    f"{LLAMA} --sweep batch=1..4 --try batch=3": "one of them",
    f"{LLAMA} --plot x.svg": "add --sweep",
    f"{LLAMA} --sweep batch=1..4 --plot x.jpg": "the name ends in",
    f"{LLAMA} --write-config=x --set batch=4": "leave out --write-config",
    "llama-3-8b": "--model llama-3-8b",
    "meta-llama/Llama-3.1-8B --method lora": "--model meta-llama/Llama-3.1-8B",
    f"{FILE} --model lama-3-8b": "did you mean",
    f"{FILE} --model ''": "the name is empty",
    f"{FILE} --inference": "--set KEY=VALUE",
    f"{FILE} --math": "explain --math",
    f"{FILE} --gpus auto": "memlint plan FILE --goal cards",
    f"{FILE} --set cutoff_len=4k": "`cutoff_len` wants an integer",
    f"{FILE} --set cutoff_len=-5": "must be at least 1",
    f"{FILE} --set per_device_train_batch_size=0": "must be at least 1, got 0",
    f"{FILE} --set per_device_train_batch_size=four": "wants an integer",
    f"{FILE} --set optim=adamw8bit": "did you mean `adamw_8bit`?",
    f"{FILE} --set finetuning_type=lora4": "did you mean `lora`?",
    f"{FILE} --set quantization_bit=3": "4 or 8 bits, not 3",
    f"{FILE} --set batch_size=4": "per_device_train_batch_size",
    f"{FILE} --set bf16=maybe": "wants true or false",
    f"{FILE} --set lora_rank=0": "must be at least 1",
    f"{FILE} --set flash_attn=foo": "one of auto, disabled, sdpa",
    f"{FILE} --set deepspeed=absent_ds.json": "no file `absent_ds.json`",
    f"{FILE} --set model_name_or_path=nothing/here": "is not known",
    f"{FILE} --set model_name_or_path=lama-3-8b": "did you mean",
    f"{FILE} --set model.nmae=x": "did you mean the run's field model.name?",
    f"{FILE} --set length=4096": "did you mean the run's field sequence.length?",
    f"{FILE} --set batch=4": "did you mean the run's field batch.micro_batch_size?",
    f"{FILE} --set batch.micro_batch_size=x": "with per_device_train_batch_size, and it is 1 now",
    f"{FILE} --set checkpointing.mode=foo": "it is full now",
    f"{FILE} --set parallelism.world_size=4": "write gpus=...",
    f"{FILE} --set gpu=": "wants the name of a card",
    f"{FILE} --set gpus=0": "whole number of GPUs",
    f"{FILE} --set cutoff_len=1 --set cutoff_len=2": "the key has one value",
    f"{FILE} --sweep cutoff_len=1..4 --set cutoff_len=5": "the key has one value",
    f"{FILE} --try optim=foo --try optim=sgd": "optim=foo:",
}
# What the framework refuses although every word of it is known: the figure is told, the run would not start.
REFUSED = {
    f"{LLAMA} --optimizer galore --method lora": "cannot be combined with GaLore",
    f"{LLAMA} --optimizer nadam": "wants one of adamw_torch",
    f"{LLAMA} --attention flash_attention_3": "raises NotImplementedError",
    f"{LLAMA} --method qlora --bits 8 --fsdp 2 --gpus 2": "do not work with 8-bit models",
    f"{LLAMA} --inference --engine vllm --gpu H100 --gpus 3": "has 32 attention heads",
    f"{LLAMA} --inference --engine sglang --gpu H100 --gpus 6": "has 32 attention heads",
}
OTHER_VERBS = {
    f"plan {FILE} --model phi-2": "names its own model, Qwen/Qwen2.5-7B-Instruct",
    f"check {FILE} --model phi-2": "names its own model, Qwen/Qwen2.5-7B-Instruct",
    f"fix {FILE} --diff --model phi-2": "names its own model, Qwen/Qwen2.5-7B-Instruct",
    f"plan {LLAMA}": "--write-config FILE",
    f"explain --math {FILE} --model lama-3-8b": "did you mean",
    f"explain --math {FILE}:3": "no finding there",
    "explain MEM01": "did you mean",
}


@pytest.fixture
def memlint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """memlint in an empty folder, in this process: there are many slips."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> Done:
        try:
            code = main(list(words))
        except SystemExit as end:  # argparse
            code = int(str(end.code))
        printed = capfd.readouterr()
        return Done(code, printed.out, printed.err)

    return run


@pytest.mark.parametrize("typed", UNDERSTOOD)
def test_another_spelling_is_understood(typed: str, memlint: Callable[..., Done]) -> None:
    done = memlint("estimate", *shlex.split(typed))
    assert done.code == 0, done.err
    assert UNDERSTOOD[typed] in done.out


@pytest.mark.parametrize("typed", SLIPS)
def test_a_slip_gets_no_figure(typed: str, memlint: Callable[..., Done]) -> None:
    done = memlint("estimate", *shlex.split(typed))
    assert (done.code, done.out) == (2, "")
    assert SLIPS[typed] in done.err


@pytest.mark.parametrize("typed", REFUSED)
def test_what_the_framework_refuses_is_no_success(typed: str, memlint: Callable[..., Done]) -> None:
    done = memlint("estimate", *shlex.split(typed))
    assert done.code == 2
    assert "refused: " in done.out and REFUSED[typed] in done.out


def test_a_value_of_a_sweep_that_is_refused_has_its_row(memlint: Callable[..., Done]) -> None:
    done = memlint("estimate", str(FILE), "--sweep", "optim=adafactor,foo", "--format", "json")
    assert done.code == 0
    assert [bool(one["refused"]) for one in json.loads(done.out)["variants"]] == [False, True]
    assert memlint("estimate", str(FILE), "--sweep", "optim=foo,bar").code == 2


@pytest.mark.parametrize("typed", OTHER_VERBS)
def test_other_verbs_refuse_as_well(typed: str, memlint: Callable[..., Done]) -> None:
    done = memlint(*shlex.split(typed))
    assert (done.code, done.out) == (2, "")
    assert OTHER_VERBS[typed] in done.err
