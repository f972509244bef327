"""The arithmetic that is printed: a script redoes it from the printed numbers alone, and reaches the estimate."""

from __future__ import annotations

import re
from math import prod
from pathlib import Path

import pytest

from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.memory.arithmetic import Arithmetic, arithmetic, redone
from memlint.memory.values import Estimate
from memlint.question import answer, question_of
from memlint.report.arithmetic import as_values, lines
from memlint.report.terminal import PLAIN

RUNS = [
    {
        "model": "llama-3-8b",
        "method": "qlora",
        "length": 4096,
        "batch": 4,
        "optimizer": "adamw_8bit",
        "gpu": "A100-80GB",
    },
    {"model": "llama-3-8b", "method": "full", "zero": 3, "gpus": 8, "gpu": "A100-80GB"},
    {"model": "Qwen2.5-7B", "method": "full", "fsdp": 2, "gpus": 8, "gpu": "H100"},
    {"model": "Qwen2.5-7B", "method": "lora", "rank": 64, "zero": 2, "gpus": 4, "gpu": "A100-80GB"},
    {"model": "phi-2", "method": "full", "dtype": "pure_bf16", "optimizer": "adafactor"},
    {"model": "gemma-2-9b", "method": "lora", "attention": "eager", "checkpointing": False},
    {"model": "Qwen2.5-0.5B", "method": "full", "liger": True, "accumulation": 4, "length": 8192},
    {"model": "mistral-7b", "framework": "trl", "method": "lora", "batch": 2},
    {"model": "llama-3.2-1b", "stage": "dpo", "method": "full"},
    {"model": "llama-3-8b", "inference": True, "requests": 4, "context": 8192, "gpu": "A100-80GB"},
    {"model": "Qwen2.5-0.5B", "method": "full", "optimizer": "sgd", "length": 64, "batch": 1, "dtype": "fp32"},
    {"model": "mixtral-8x7b", "method": "lora", "zero": 3, "gpus": 8, "gpu": "A100-80GB"},
    {"model": "llama-3-8b", "method": "lora", "zero": 3, "gpus": 8, "gpu": "A100-80GB"},
    {"model": "llama-3-8b", "method": "full", "zero": 3, "offload": "all", "gpus": 2},
    {"model": "llama-3-8b", "method": "full", "zero": 2, "offload": "optimizer", "gpus": 2},
    {"model": "llama-3-8b", "method": "full", "fsdp": 1, "gpus": 4},
    {"model": "google-t5/t5-base", "method": "full"},
    {"model": "google/flan-t5-large", "inference": True},
    {"model": "bert-base-uncased", "inference": True},
    {"model": "bert-base-uncased", "method": "full"},
    {"model": "deepseek-ai/DeepSeek-V2-Lite", "inference": True, "requests": 4},
    {"model": "llama-3-8b", "inference": True, "engine": "vllm", "gpu": "H100"},
    {"model": "llama-3-8b", "inference": True, "engine": "sglang", "gpu": "H100", "gpus": 2},
    {"model": "Qwen/Qwen2-VL-7B-Instruct", "method": "lora"},
    {"model": "llama-3-8b", "stage": "kto", "method": "lora"},
]
# Runs of files: GRPO and PPO, beside an inference engine and with further models; adapters on ZeRO-3.
FILES = [
    "openrlhf/ppo_8b.sh",
    "swift/grpo_7b.yaml",
    "verl/grpo_7b.sh",
    "llamafactory/llama3_8b_qlora_dpo.yaml",
    "deepspeed/train_offload.yaml",
    "axolotl/llama3_8b_full_fsdp2.yaml",
]
EXAMPLES = Path(__file__).parents[2] / "examples"


def number(text: str) -> float:
    return float(text.replace(",", ""))


def redo(formula: str) -> float:
    """`32 x [16,384 tokens x 4,096 a token x 2 bytes] / 8 cards`: what stands left of the equals sign, in bytes."""
    tensor = re.fullmatch(r"(?:([\d,]+) x )?\[(.*)\]", formula)
    if tensor:
        one = prod(number(part.split()[0]) for part in tensor[2].split(" x "))
        return number(tensor[1] or "1") * (-(-int(one) // 512) * 512)
    product, _, cards = formula.partition(" / ")
    whole = prod(number(part.split()[0]) for part in product.split(" x "))
    return int(whole) // int(number(cards.split()[0])) if cards else int(whole)


def redone_from_text(text: list[str]) -> int:
    """The bytes on the card, from the printed lines alone. Every line, component and sum is checked on the way."""
    component, found, components = 0, 0, []
    for line in text:
        head = re.fullmatch(r"  [^|]+? = ([\d,]+) bytes = [\d.]+ GiB", line)
        if head:
            component, found = int(number(head[1])), 0
            components.append(component)
        elif line.startswith("    ") and " | " in line:
            formula, equals, result = line.split(" | ")[1].rpartition(" = ")
            assert not equals or redo(formula) == number(result), line
            found += int(number(result))
        elif not line.strip() and components:
            assert found == component, (found, component)
    sums = [line.split(" | ")[1].split(" = ") for line in text if line.startswith(("  allocated |", "  on the card |"))]
    for terms, total, _ in sums:
        assert sum(int(number(part)) for part in terms.split(" + ")) == number(total.removesuffix(" bytes"))
    assert [int(number(part)) for part in sums[0][0].split(" + ")] == components
    return int(number(sums[1][1].removesuffix(" bytes")))


def told(asked: dict[str, object]) -> tuple[Arithmetic, Estimate]:
    found = answer(question_of(asked))
    made = arithmetic(found.neutral, found.run.estimate)
    assert made is not None, found.run.estimate.unknown
    return made, found.run.estimate


@pytest.mark.parametrize("asked", RUNS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_the_printed_numbers_give_the_estimate(asked: dict[str, object]) -> None:
    made, estimate = told(asked)
    assert redone_from_text(list(lines(made, estimate, PLAIN))) == estimate.device_bytes
    assert made.allocated == estimate.allocated_bytes
    assert all(redone(term) == term.bytes for component in made.components for term in component.terms)


@pytest.mark.parametrize("path", FILES)
def test_the_printed_numbers_give_the_estimate_of_a_file(path: str) -> None:
    analysis = Linter(LintRequest(StatedFacts(), fixes=False)).analyse(str(EXAMPLES / path)).analyses[0]
    estimate = analysis.estimates[0]
    made = arithmetic(analysis.runs[0], estimate)
    assert made is not None
    assert redone_from_text(list(lines(made, estimate, PLAIN))) == estimate.device_bytes


@pytest.mark.parametrize("asked", RUNS, ids=lambda asked: "-".join(map(str, asked.values())))
def test_little_is_left_without_a_formula(asked: dict[str, object]) -> None:
    """Nearly every byte has a formula; what is subtracted is a number of another line."""
    made, _ = told(asked)
    bare = [term for part in made.components for term in part.terms if not term.factors]
    rest = sum(abs(term.bytes) for term in bare if not term.label.startswith(("less ", "of these, not on the card")))
    assert rest <= 0.02 * made.allocated


def test_the_dimensions_are_told() -> None:
    made, _ = told({"model": "llama-3-8b"})
    assert {one.name: one.value for one in made.facts} == {
        "layers": 32,
        "hidden size": 4096,
        "heads": 32,
        "key-value heads": 8,
        "head size": 128,
        "MLP size": 14336,
        "words": 128256,
    }


def test_input_ids_and_labels_have_a_line() -> None:
    made, _ = told({"model": "llama-3-8b", "length": 1000, "batch": 3})
    activations = next(part for part in made.components if part.name == "activations")
    sizes = {term.label: term.bytes for term in activations.terms}
    assert sizes["input ids"] == sizes["labels"] == 24064  # 3 x 1,000 x 8, up to a multiple of 512


def test_json_says_the_same() -> None:
    made, estimate = told({"model": "phi-2"})
    values = as_values(made)
    assert values["allocated_bytes"] == estimate.allocated_bytes
    assert sum(term["bytes"] for part in values["components"] for term in part["terms"]) == values["allocated_bytes"]


def test_without_an_estimate_there_is_nothing_to_explain() -> None:
    found = answer(question_of({"model": "phi-2", "inference": True, "engine": "vllm"}))
    assert arithmetic(found.neutral, found.run.estimate) is None
