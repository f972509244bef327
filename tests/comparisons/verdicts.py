"""Verdicts beside what happened: runs that died, and runs that fitted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate
from tests.comparisons.stacks import LeftOut, run_of

DIED = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "oom_runs.jsonl"


def died() -> Iterator[tuple[dict[str, Any], Estimate | str]]:
    """Every run that died, with its estimate or the reason why there is none."""
    for line in DIED.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        try:
            yield row, estimate(run_of(as_measured(row)))
        except LeftOut as reason:
            yield row, str(reason)


def as_measured(row: dict[str, Any]) -> dict[str, Any]:
    """The row in the terms of measured_runs.jsonl. One table was taken on transformers 4.48, the others on 4.45."""
    version = "4.48" if "/a100_80gb.csv" in row["source"] else "4.45"
    pure = row["method"] == "full" and row.get("n_gpus") == 1
    spread = row.get("n_gpus", 1) > 1 and row["method"] == "full"
    notes = f"framework_config={row.get('framework_config')}; transformers {version}"
    half = "fp16" if "gptq" in str(row.get("quantization")) or "float16" in str(row.get("amp")) else "bf16"
    return {
        "lora_targets": ["q_proj", "k_proj", "v_proj", "o_proj"],
        "grad_accum": 1,
        **row,
        "id": row["id"].removeprefix("oom-"),
        "notes": notes + ("; pure half precision" if pure else ""),
        "compute_dtype": half,
        "weights_dtype": "fp32 flat" if spread else str(row.get("weights_dtype")),
    }


@cache
def table() -> tuple[list[tuple[str, str, str]], Counter[str]]:
    """(id, verdict or reason, predicted figures) and the counts of verdicts."""
    lines: list[tuple[str, str, str]] = []
    counts: Counter[str] = Counter()
    for row, found in died():
        if isinstance(found, str):
            lines.append((row["id"], "left out", found))
            counts["left out"] += 1
            continue
        counts[found.verdict] += 1
        lines.append((row["id"], found.verdict, _figures(found)))
    return lines, counts


def _figures(found: Estimate) -> str:
    if found.allocated_bytes is None:
        return "; ".join(f"{one.field}: {one.reason}" for one in found.unknown)
    low, high, usable = (size or 0 for size in (found.device_low_bytes, found.device_high_bytes, found.budget_bytes))
    gib = 1 << 30
    span = f"card {low / gib:.1f} to {high / gib:.1f} of {usable / gib:.1f}"
    return f"{found.allocated_bytes / gib:.1f} GiB of tensors, {span}"
