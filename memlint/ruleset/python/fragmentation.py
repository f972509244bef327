"""MEM011: a run whose sequences differ in length, that fits once the allocator's segments can grow.

Only an estimate with such segments can tell, so this rule is Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.expressions.facts import Facts
from memlint.expressions.functions import FUNCTIONS
from memlint.memory.estimate import estimate
from memlint.ruleset.rule import Hit
from memlint.run import replace

_CONFIG = """\
model_name_or_path: Qwen/Qwen2.5-1.5B
stage: sft
do_train: true
finetuning_type: lora
dataset: alpaca_en_demo
template: qwen
cutoff_len: {length}
per_device_train_batch_size: 4
bf16: true
output_dir: out
"""
FIELDS: Mapping[str, Any] = {
    "id": "MEM011",
    "name": "memory/fragmentation",
    "title": "The run may fail of fragmentation alone",
    "severity": "info",
    "purposes": ["train"],
    "at": ["sequence.length", "config"],
    "folds_into": ["MEM002"],  # one run, one excess
    "why": (
        "Batches of other lengths leave gaps between the segments of PyTorch's allocator, where nothing else fits. "
        "With PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True segments grow in place. The variable is set where the "
        "training is started; llamafactory-cli does it for several GPUs."
    ),
    "sources": [
        "https://pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf",
        "LLaMA-Factory ff6d4d1 src/llamafactory/launcher.py:82",
    ],
    "examples": [
        {"fails": _CONFIG.format(length=2304), "gpu": "RTX4090", "gpus": 1, "says": "expandable_segments"},
        {"passes": _CONFIG.format(length=1024), "gpu": "RTX4090", "gpus": 1},
        {"passes": _CONFIG.format(length=2304), "note": "nobody said which card"},
    ],
}


def check(facts: Facts) -> Iterator[Hit]:
    """One hit where the verdict is "tight" without expandable segments and "fits" with them."""
    run = facts.run
    if facts.verdict != "tight" or run.stack.expandable_segments:
        return
    now = facts.estimate
    if now is None or now.device_high_bytes is None or not run.sequence.length_is_bound:
        return
    grown = estimate(replace(run, {"stack.expandable_segments": True}))
    if grown.verdict != "fits" or grown.device_high_bytes is None:
        return
    gib = FUNCTIONS["gib"].call
    yield Hit(
        f"sequences of up to {run.sequence.length} tokens differ in length: fragmentation may take the run to "
        f"{gib(now.device_high_bytes)} of {gib(now.budget_bytes)}; with expandable_segments it needs at most "
        f"{gib(grown.device_high_bytes)}",
        at="sequence.length",
        data={"high": now.device_high_bytes, "high_expandable": grown.device_high_bytes, "budget": now.budget_bytes},
    )
