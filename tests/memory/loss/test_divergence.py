"""Distillation's loss beside the simulated steps in benchmarks/data: whole and by rows, in half precision and fp32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.distillation import predicted

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "data" / "distillation.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_the_peak_is_the_simulated_one(case: dict[str, Any]) -> None:
    said, real = predicted(case), case["result"]
    assert said["forward"] == pytest.approx(real["forward"], rel=0.005)
    assert max(said["forward"], said["backward"]) == pytest.approx(max(real.values()), rel=0.005)
    if case["in_chunks"]:  # an upper bound
        assert said["backward"] >= real["backward"]
    else:
        assert said["backward"] == pytest.approx(real["backward"], rel=0.005)


def test_every_kind_and_width_is_among_the_cases() -> None:
    assert len({(case["kind"], case["in_chunks"], case["fp32"]) for case in CASES[::5]}) == 17
