"""The whole estimate against random mixtures of sharding settings, without running an engine (mixtures.jsonl)."""

from __future__ import annotations

import pytest

import tests.comparisons.sharding as compare

ROWS = [row for row in compare.mixture_rows() if "ranks" in row]
ERRORS = compare.estimate_errors(ROWS)
PHASES = ("forward", "backward", "step")


def test_every_engine_is_mixed() -> None:
    engines = [row["setting"]["engine"] for row in ROWS]
    assert all(engines.count(engine) >= 8 for engine in ("deepspeed", "fsdp1", "fsdp2"))
    assert {row["setting"].get("zero", {}).get("stage") for row in ROWS} >= {0, 1, 2, 3}


@pytest.mark.parametrize("phase", PHASES)
def test_nearly_all_mixtures_are_met(phase: str) -> None:
    sizes = [abs(errors[phase]) for errors in ERRORS.values()]
    assert compare.quantile(sizes, 0.5) <= 0.002
    assert compare.quantile(sizes, 0.95) <= 0.04


@pytest.mark.parametrize("name", ERRORS)
def test_no_phase_of_any_mixture_is_far_off(name: str) -> None:
    assert {phase: error for phase, error in ERRORS[name].items() if abs(error) > 0.08} == {}
