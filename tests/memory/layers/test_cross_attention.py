"""Encoders and encoder-decoders beside a simulated step."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of


@pytest.mark.parametrize("family", ["bert", "distilbert", "modernbert", "bart"])
def test_the_simulated_step_is_inside_of_the_interval(family: str) -> None:
    config = members()[family]
    run = run_of(config, Step("full", False, "eager"))
    found, real = estimate(run), simulate(run, config)
    assert found.parameters == real.parameters
    low, high = found.allocated_low_bytes, found.allocated_high_bytes
    peak = max(real.forward, real.backward)
    assert found.allocated_bytes is not None
    assert (low or found.allocated_bytes) * 0.99 <= peak <= (high or found.allocated_bytes) * 1.01


def test_an_encoder_may_be_a_classifier_without_logits() -> None:
    found = estimate(run_of({**members()["bert"], "vocab_size": 50_000}, Step("pure", True, "sdpa")))
    assert found.allocated_low_bytes is not None and found.allocated_bytes is not None
    assert found.allocated_bytes - found.allocated_low_bytes > 2 * 1024 * 50_000  # logits of one byte at the least


def test_t5s_biases_are_between_sdpa_and_eager_attention() -> None:
    config = members()["t5"]
    sdpa, eager = (estimate(run_of(config, Step("pure", False, name))) for name in ("sdpa", "eager"))
    assert sdpa.allocated_high_bytes is not None and eager.allocated_bytes is not None
    assert sdpa.allocated_high_bytes >= eager.allocated_bytes
