"""Six cases that other estimators were asked, with memlint's answer. Figures of the others: data/peers.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from memlint.architectures import resolve
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Evaluation,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Quantization,
    Run,
    Sequence,
    Zero,
)

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "peers.json"
_LORA = Method("lora", rank=8, alpha=16, targets=("all-linear",))
_MIXED = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)
_HALF = Precision("bfloat16", False, "bfloat16", True, outputs_to_fp32=False)
_ZERO3 = Parallelism(8, 8, 8, engine="deepspeed", zero=Zero(3))
_ONE = Parallelism(1, 1, 1)


def _run(
    name: str,
    method: Method,
    precision: Precision,
    shape: tuple[int, int],
    attention: str,
    spread: Parallelism = _ONE,
    **changes: Any,
) -> Run:
    model = Model(name, resolve(name).architecture, changes.pop("weights", "bfloat16"))
    run = Run(
        "case",
        name,
        model=model._replace(quantization=changes.pop("quantization", Quantization())),
        method=method,
        precision=precision,
        batch=Batch(shape[0], 1),
        sequence=Sequence(shape[1]),
        attention=Attention(attention),
        checkpointing=Checkpointing("full"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=spread,
        evaluation=Evaluation(enabled=False),
    )
    return run._replace(**changes)


def runs() -> tuple[Run, ...]:
    """The six cases, in the order of data/peers.json."""
    llama2, qwen, full = "meta-llama/Llama-2-7b-hf", "Qwen/Qwen2.5-1.5B", Method("full")
    plain = Checkpointing("none")
    nf4 = Quantization("bnb", 4, "nf4", double_quant=True)
    return (
        _run("meta-llama/Meta-Llama-3-8B", full, _HALF, (1, 2048), "flash_attention_2", _ZERO3),
        _run(llama2, _LORA, _MIXED, (1, 2048), "sdpa"),
        _run(llama2, _LORA, _MIXED, (1, 2048), "sdpa", quantization=nf4),
        _run(qwen, full, _MIXED, (4, 4096), "eager", weights="float32", checkpointing=plain),
        _run(qwen, full, _MIXED, (4, 4096), "sdpa", weights="float32", loss=Loss("liger")),
        _run("mistralai/Mixtral-8x7B-v0.1", _LORA, _HALF, (1, 4096), "flash_attention_2", _ZERO3),
    )


def lines() -> list[str]:
    """A table: one column a case, one row a tool, memlint last."""
    told = json.loads(PEERS.read_text(encoding="utf-8"))
    rows = [("simulated step (PyTorch's own tracker)", told["simulated"]), *told["tools"].items()]
    mine = [estimate(run).allocated_bytes for run in runs()]
    rows.append(("**memlint**", [None if size is None else round(size / (1 << 30), 1) for size in mine]))
    found = ["| GiB per GPU | 1 | 2 | 3 | 4 | 5 | 6 |", "|---|---|---|---|---|---|---|"]
    for name, figures in rows:
        found.append(f"| {name} | " + " | ".join("-" if size is None else f"{size:g}" for size in figures) + " |")
    return found + ["", *(f"{number}. {text}" for number, text in enumerate(told["cases"], 1))]
