"""A value model that trains in the policy's own step, beside the simulated steps in benchmarks/data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.value_step import predicted

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "value_step.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_both_models_are_in_the_step(case: dict[str, Any]) -> None:
    said = predicted(case)
    assert {phase: said[phase] for phase in case["result"]} == pytest.approx(case["result"], rel=0.005)
