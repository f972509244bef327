"""Intervals for families whose closed form is known to be off."""

from __future__ import annotations

import pytest

import memlint.memory.card.deviations as deviations
from memlint.memory.estimate import estimate
from memlint.memory.values import Phase
from tests.memory import runs

PHASES = (
    Phase("forward", 1000, {"weights": 200, "activations": 700, "logits": 100}),
    Phase("optimizer_step", 900, {"weights": 900}),
)


def test_a_family_that_agrees_has_no_interval() -> None:
    assert deviations.bounds(runs.run(), PHASES) == (1000, 1000)
    assert estimate(runs.run()).allocated_low_bytes is None


def test_shares_are_of_what_a_step_allocates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deviations, "_table", lambda: {"llama": {"sdpa": (-0.05, 0.25)}})
    assert deviations.transient(PHASES[0]) == 800
    assert deviations.bounds(runs.run(), PHASES) == (960, 1200)


def test_no_phase_outside_of_the_step_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deviations, "_table", lambda: {"llama": {"sdpa": (-0.5, 0.0)}})
    assert deviations.bounds(runs.run(), PHASES) == (900, 1000)


def test_the_interval_reaches_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = estimate(runs.run())
    monkeypatch.setattr(deviations, "_table", lambda: {"llama": {"sdpa": (-0.1, 0.3)}})
    wide = estimate(runs.run())
    assert wide.allocated_bytes == plain.allocated_bytes
    assert wide.allocated_low_bytes < wide.allocated_bytes < wide.allocated_high_bytes
    assert wide.device_low_bytes <= plain.device_low_bytes
    assert wide.device_high_bytes > plain.device_high_bytes
