"""AReaL's update under FSDP2, beside the simulated steps in benchmarks/data, and how its model is loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.areal_update import predicted
from memlint.memory.estimate import estimate
from memlint.run import Fsdp, Parallelism
from tests.memory.runs import run

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "areal_update.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_update_is_the_simulated_one(case: dict[str, Any]) -> None:
    said = predicted(case)
    assert case["result"]
    for phase, size in case["result"].items():
        assert said[phase] == pytest.approx(size, rel=0.001)


@pytest.mark.parametrize("reference", ["none", "copy"])
def test_a_model_that_is_loaded_whole_is_there_before_its_shards(reference: str) -> None:
    sharded = {
        "parallelism": Parallelism(8, 8, 8, engine="fsdp", fsdp=Fsdp(2, loads_whole=True)),
        "method__reference_model": reference,
    }
    found = {one.name: one for one in estimate(run(**sharded)).phases}["load"]
    whole = 2 * (estimate(run()).parameters or 0)
    shards = whole // 8 if reference == "copy" else 0  # of the policy, while its reference is loaded
    assert found.allocated_bytes == pytest.approx(whole + shards, rel=0.02)
