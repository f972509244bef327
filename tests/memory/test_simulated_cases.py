"""The closed form against simulated steps that are kept with the project."""

from __future__ import annotations

from pathlib import Path

import pytest

import tests.comparisons.simulated as simulated

ROOT = Path(__file__).parents[2]
CASES = ROOT / "benchmarks" / "data" / "simulated_cases.jsonl"


@pytest.fixture(scope="module")
def errors() -> list[tuple[str, dict[str, float]]]:
    found: list[tuple[str, dict[str, float]]] = simulated.table(str(CASES))
    assert len(found) >= 50
    return found


def test_the_peak_agrees(errors: list[tuple[str, dict[str, float]]]) -> None:
    peaks = sorted(abs(found["peak"]) for _, found in errors)
    assert peaks[len(peaks) // 2] <= 0.002
    assert peaks[int(0.9 * len(peaks))] <= 0.03
    assert peaks[-1] <= 0.06


@pytest.mark.parametrize("phase", ["forward", "backward"])
def test_each_phase_agrees(errors: list[tuple[str, dict[str, float]]], phase: str) -> None:
    worst = max(errors, key=lambda entry: abs(entry[1][phase]))
    assert abs(worst[1][phase]) <= 0.10, worst
