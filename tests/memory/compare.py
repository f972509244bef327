"""The closed form and the simulated step of one small model, for tests that hold one against the other."""

from __future__ import annotations

import warnings
from typing import Any

from memlint.memory import estimate
from memlint.simulation import SimulatedStep, simulate
from tests.comparisons.families import Step, run_of

STEPS = [Step(method, checkpointing, "sdpa") for method in ("full", "pure", "lora") for checkpointing in (False, True)]


def estimated_and_simulated(config: dict[str, Any], step: Step) -> tuple[dict[str, int], SimulatedStep]:
    """Bytes by phase, and the step."""
    run = run_of(config, step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = simulate(run, config)
    return {phase.name: phase.allocated_bytes for phase in estimate(run).phases}, real
