"""The harness for CUDA machines: its cases, and its plumbing on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HARNESS = Path(__file__).parents[2] / "benchmarks" / "referee" / "gpu" / "run.py"


def _harness(*arguments: str) -> str:
    done = subprocess.run([sys.executable, str(HARNESS), *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def test_cases_have_names_of_their_own() -> None:
    names = _harness("--list").split()
    assert len(set(names)) == len(names) > 80


def test_a_dry_run_writes_rows_and_reports_what_failed(tmp_path: Path) -> None:
    output = tmp_path / "rows.jsonl"
    _harness("--dry-run", "--output", str(output))
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["id"] for row in rows] == ["harness-tiny-full", "harness-tiny-lora"]
    full, lora = rows
    assert full["other_metrics"]["trainable_params"] == full["other_metrics"]["total_params"]
    assert 0 < lora["other_metrics"]["trainable_params"] < lora["other_metrics"]["total_params"]
    assert {"peak_forward_gib", "peak_backward_gib", "peak_optimizer_step_gib", "peak_evaluation_gib"} <= set(
        full["other_metrics"]
    )
    assert full["metric"] == "max_allocated"
