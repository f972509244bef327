"""DeBERTa's attention beside a simulated step."""

from __future__ import annotations

import pytest

from memlint.memory.estimate import estimate
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of

CONFIG = members()["deberta-v2"]


@pytest.mark.parametrize("method", ["full", "pure", "lora"])
def test_position_terms_are_those_of_a_simulated_step(method: str) -> None:
    run = run_of(CONFIG, Step(method, False, "eager"))
    found, real = estimate(run), simulate(run, CONFIG)
    assert (found.parameters, found.trainable_parameters) == (real.parameters, real.trainable_parameters)
    assert found.allocated_bytes == pytest.approx(real.peak, rel=0.01)


def test_each_term_adds_scores() -> None:
    terms = ([], ["c2p"], ["c2p", "p2c"])
    runs = [run_of({**CONFIG, "pos_att_type": names}, Step("pure", False, "eager")) for names in terms]
    none, one, two = (estimate(run).allocated_bytes or 0 for run in runs)
    assert none < one < two
