"""One training step of the real model on fake tensors (needs the `exact` extra: PyTorch and transformers)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.run import Run
from memlint.simulation.build import Adapter
from memlint.simulation.from_run import (
    UnknownConfiguration,
    UnsupportedRun,
    configuration,
    named_configuration,
    settings,
)
from memlint.simulation.result import Live, SimulatedStep
from memlint.simulation.step import Settings, simulate_settings

__all__ = [
    "Adapter",
    "Live",
    "Settings",
    "SimulatedStep",
    "UnknownConfiguration",
    "UnsupportedRun",
    "simulate",
    "simulate_settings",
]


def simulate(run: Run, config: Mapping[str, Any] | None = None, *, kernel_temporaries: bool = True) -> SimulatedStep:
    """The steady training step of `run` on one GPU.

    `config` is the model's config.json; without it the configuration is rebuilt from the architecture.
    Raises UnknownConfiguration, UnsupportedRun, which says what cannot be simulated or is unknown.
    """
    chosen = settings(run, kernel_temporaries)
    if config is not None:
        return simulate_settings(*named_configuration(config), chosen)
    if not run.model.architecture:
        raise UnsupportedRun("model.architecture is unknown")
    return simulate_settings(*configuration(run.model.architecture), chosen)
