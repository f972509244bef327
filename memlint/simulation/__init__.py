"""One training step of the real model on fake tensors (needs the `exact` extra: PyTorch and transformers)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.run import Run
from memlint.simulation.build import Adapter
from memlint.simulation.from_run import (
    configuration,
    generation_settings,
    named_configuration,
    settings,
)
from memlint.simulation.generation import SimulatedGeneration, simulate_generation
from memlint.simulation.result import Live, SimulatedStep, UnsupportedRun
from memlint.simulation.step import StepSettings, simulate_settings

__all__ = [
    "Adapter",
    "Live",
    "SimulatedGeneration",
    "SimulatedStep",
    "StepSettings",
    "UnsupportedRun",
    "simulate",
    "simulate_requests",
    "simulate_settings",
]


def simulate(
    run: Run,
    config: Mapping[str, Any] | None = None,
    *,
    kernel_temporaries: bool = True,
    config_of: Callable[[], Mapping[str, Any] | None] = lambda: None,
) -> SimulatedStep:
    """The steady training step of `run` on one GPU.

    `config`: the model's config.json. Without it the configuration is rebuilt from the architecture; if that is not
    possible, it is what `config_of` returns. Raises UnsupportedRun, which names what is unknown or not simulated.
    """
    step_settings = settings(run, kernel_temporaries)
    if config is None:
        rebuilt = configuration(run.model.architecture)
        if rebuilt is not None:
            return simulate_settings(*rebuilt, step_settings)
        config = config_of()
    if config is None:
        raise UnsupportedRun(f"the configuration of {run.model.architecture.class_name} must be given")
    return simulate_settings(*named_configuration(config), step_settings)


def simulate_requests(run: Run, config: Mapping[str, Any]) -> SimulatedGeneration:
    """A batch of requests to the model of `run` on one GPU. `config`: its config.json. Raises UnsupportedRun."""
    return simulate_generation(*named_configuration(config), generation_settings(run))
