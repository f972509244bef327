"""Gemma 3n's streams beside a simulated step."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of


@pytest.mark.parametrize("checkpointing", [False, True])
def test_the_streams_are_those_of_a_simulated_step_within_its_interval(checkpointing: bool) -> None:
    config = members()["gemma3n_text"]
    run = run_of(config, Step("pure", checkpointing, "sdpa"))
    found, real = estimate(run), simulate(run, config)
    assert found.parameters == real.parameters
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    assert found.allocated_low_bytes * 0.98 <= max(real.forward, real.backward) <= found.allocated_high_bytes * 1.02


def test_more_streams_take_more() -> None:
    config = members()["gemma3n_text"]
    few, many = (
        estimate(run_of({**config, "altup_num_inputs": streams}, Step("pure", False, "sdpa"))) for streams in (2, 4)
    )
    assert few.details["kept_activations_bytes"] < many.details["kept_activations_bytes"]
