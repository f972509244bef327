"""Accuracy of inference: the estimate beside a prefill and a decode that were simulated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memlint.question import Answer, answer, question_of

RESULTS = Path(__file__).parents[2] / "benchmarks" / "data" / "generation.jsonl"
PHASES = ("load", "prefill", "decode")
Row = dict[str, Any]

MODELS = (
    *("meta-llama/Llama-2-7b-hf", "meta-llama/Meta-Llama-3-8B", "meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.1-70B"),
    *("mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen2.5-7B", "Qwen/Qwen3-8B"),
    *("Qwen/Qwen3-30B-A3B", "google/gemma-2-9b", "google/gemma-3-1b-it", "google/gemma-7b", "microsoft/phi-2"),
    *("microsoft/Phi-3-mini-4k-instruct", "openai-community/gpt2", "EleutherAI/pythia-1.4b", "tiiuae/falcon-7b"),
    *("bigscience/bloom-7b1", "01-ai/Yi-34B", "deepseek-ai/DeepSeek-V2-Lite", "openai/gpt-oss-20b"),
    *("bigcode/starcoder2-7b", "allenai/OLMo-2-1124-7B", "ibm-granite/granite-3.1-8b-base"),
)
# GPT-2's blocks hold the output of their attention, BLOOM's the scores before the mask: neither is counted.
BOUNDS = {"openai-community/gpt2": 0.025, "bigscience/bloom-7b1": 0.09}
_SMALL = ("meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-7B", "mistralai/Mistral-7B-v0.1", "google/gemma-2-9b")


def cases() -> Iterator[Row]:
    """Questions about models that answer requests: each model once, a few of them in other ways."""
    for model in MODELS:
        yield {"model": model, "requests": 2, "context": 5001, "new_tokens": 1}
    for model in _SMALL:
        yield {"model": model, "requests": 2, "context": 2048, "new_tokens": 256, "attention": "eager"}
        yield {"model": model, "requests": 1, "context": 4096, "new_tokens": 256, "bits": 4}
        yield {"model": model, "requests": 1, "context": 4096, "new_tokens": 256, "bits": 8}
        yield {"model": model, "requests": 1, "context": 3000, "new_tokens": 1000, "dtype": "fp32"}
        yield {"model": model, "requests": 16, "context": 1024, "new_tokens": 512, "dtype": "fp16"}


def named(row: Row) -> str:
    """A row's question in one line."""
    return " ".join(str(value) for key, value in row.items() if key not in (*PHASES, "cached_prompt", "cached"))


def rows() -> list[Row]:
    """The cases with what was simulated, bytes."""
    return [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]


def asked(row: Row) -> Answer:
    """The answer to a row's question."""
    keys = ("model", "requests", "context", "new_tokens", "attention", "bits", "dtype")
    return answer(question_of({"inference": True, **{key: row[key] for key in keys if key in row}}))


def estimated(row: Row) -> dict[str, int]:
    """What the estimate has for the figures of a row."""
    phases = {phase.name: phase for phase in asked(row).run.estimate.phases}
    caches = {"cached_prompt": "prefill", "cached": "decode"}
    return {name: phases[name].allocated_bytes for name in PHASES} | {
        name: phases[phase].components["kv_cache"] for name, phase in caches.items()
    }
