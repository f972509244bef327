"""Encoder-decoders beside simulated steps: what is between the two sides, and an encoder of another length."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory.estimate import estimate
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of

STEPS = [Step(method, False, "sdpa") for method in ("full", "pure")]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
@pytest.mark.parametrize("family", ["bart", "t5", "whisper"])
def test_both_sides_are_those_of_a_simulated_step(family: str, step: Step) -> None:
    config = members()[family]
    run = run_of(config, step)
    found, real = estimate(run), simulate(run, config)
    assert (found.parameters, found.trainable_parameters) == (real.parameters, real.trainable_parameters)
    assert found.allocated_bytes == pytest.approx(real.peak, rel=0.025)


def peak(config: dict[str, Any], length: int) -> int:
    run = run_of(config, STEPS[0])
    return estimate(run._replace(sequence=run.sequence._replace(length=length))).allocated_bytes or 0


def test_an_encoder_of_sound_takes_the_same_whatever_the_length_of_the_text() -> None:
    whisper = members()["whisper"]
    longer = {**whisper, "max_source_positions": 4 * whisper["max_source_positions"]}
    assert peak(longer, 8) > 1.5 * peak(whisper, 8)
    assert peak(whisper, 1024) > 2 * peak(whisper, 8)
