"""Reward models and KTO as frameworks' own files say them, beside the simulated steps in benchmarks/data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.reward_steps import TRAINERS, predicted

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "reward_steps.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['trainer']}-{case['config_class']}-{case['B']}")
def test_each_phase_is_the_simulated_one(case: dict[str, Any]) -> None:
    said = predicted(case)
    found = {name: said[name] for name in case["result"]}
    highest = max(case["result"], key=case["result"].__getitem__)
    assert found[highest] == pytest.approx(case["result"][highest], rel=0.01)
    assert found["forward"] == pytest.approx(case["result"]["forward"], rel=0.025)


def test_all_trainers_are_compared() -> None:
    assert {case["trainer"] for case in CASES} == set(TRAINERS)
