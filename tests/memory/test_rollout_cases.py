"""Log-probabilities and updates beside the simulated ones in benchmarks/data: models and settings of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.rollout_phases import predicted

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data"
FILES = (
    "rollout_phases.jsonl",
    "rollout_phases_others.jsonl",
    "rollout_phases_padded.jsonl",
    "rollout_phases_skyrl.jsonl",
)


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def test_there_are_sixty_cases_that_the_closed_form_was_not_made_with() -> None:
    assert len(rows(FILES[1])) == 60


@pytest.mark.parametrize("name", FILES)
def test_each_phase_is_the_simulated_one(name: str) -> None:
    cases = rows(name)[:: 1 if "padded" in name else 3]
    assert cases
    for case in cases:
        said = predicted(case)
        assert {phase: said[phase] for phase in case["result"]} == pytest.approx(
            case["result"], rel=0.015 if "padded" not in name else 0.023
        ), case
