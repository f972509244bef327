"""One step of tiny models on fake tensors, whose phases the caller begins: what referees of single losses share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import memlint.simulation.attention as attention_functions
import memlint.simulation.build as build
import memlint.simulation.kernels as kernels
import memlint.simulation.precision as precision
import memlint.simulation.replay as replay
from memlint.simulation.tracker import Tracker

Models = tuple[Any, ...]
Step = Callable[[Models, torch.Tensor, Tracker], None]


def model_of(case: dict[str, Any]) -> Any:
    """The model of the case's `config_class` and `config`, in bfloat16 on the meta device."""
    implementation = attention_functions.implementation("flash_attention_2")
    return build.model_on_meta(case["config_class"], case["config"], implementation, torch.bfloat16)


def alone(case: dict[str, Any]) -> Models:
    return (model_of(case),)


def phases(case: dict[str, Any], step: Step, models: Callable[[dict[str, Any]], Models] = alone) -> dict[str, int]:
    """Bytes beside the weights of all `models` at the peak of each phase.

    `step(models, ids, tracker)` runs the step on ids of `B` rows of `S` tokens and begins its phases.
    """
    attention_functions.register()
    attention_functions.FlashCore.temporaries = True
    tracker = Tracker(kernels.temporaries)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = models(case)
        with FakeTensorMode(), tracker, precision.CudaOperators():
            tracker.begin("base")
            for model in made:
                build.to_fake(model)
            ids = torch.zeros((case["B"], case["S"]), dtype=torch.int64)
            base = tracker.current - 8 * ids.numel()
            step(made, ids, tracker)
    peaks = replay.phase_peaks(tracker)
    return {name: peak - base for name, (_, peak) in peaks.items() if name != "base"}
