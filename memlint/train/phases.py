"""Measures the peak of each phase of a training, with hooks on the model and its optimizer.

forward: from the model's call to its return. backward: from there to the optimizer's step. A call in evaluation mode is
evaluation. Everything else (saving, loading data) is "between" the steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from memlint.train.guard import guarded
from memlint.train.live import innermost
from memlint.train.meters import MeasuredPeak, Meter

ALWAYS_MEASURED = 10  # the first steps are all measured; later ones only if their batch is longer than any before
BETWEEN = "between"
PHASES = ("load", "forward", "backward", "optimizer_step", "save", "evaluation")


class PhaseRecorder:
    """Records peaks by phase. `longest`: (sequences, tokens of each) of the batch with the most tokens."""

    def __init__(self, model: torch.nn.Module, meter: Meter) -> None:
        self.peaks: dict[str, MeasuredPeak] = {}
        self.longest: tuple[int, int] = (0, 0)
        self.steps = 0
        self.measured_steps = 0
        self._model = model
        self._meter = meter
        self._phase = "load" if meter.sees_loading else BETWEEN
        self._is_measuring = True
        self._handles: list[Any] = []

    def start(self, optimizer: torch.optim.Optimizer | None) -> None:
        self._meter.start(self._model)
        before, after = guarded(self._before_forward), guarded(self._after_forward)
        self._handles += [
            self._model.register_forward_pre_hook(before, with_kwargs=True),
            self._model.register_forward_hook(after),
        ]
        self.follow(optimizer)

    def follow(self, optimizer: Any) -> None:
        """Hooks the optimizer inside the wrappers of accelerate and DeepSpeed."""
        optimizer = innermost(optimizer)
        if isinstance(optimizer, torch.optim.Optimizer):
            self._handles += [
                optimizer.register_step_pre_hook(guarded(self._before_step)),
                optimizer.register_step_post_hook(guarded(self._after_step)),
            ]

    def stop(self) -> None:
        """Ends the last phase and takes every hook away, whatever fails."""
        try:
            self.enter(BETWEEN)
        finally:
            for handle in self._handles:
                handle.remove()
            self._handles.clear()
            self._meter.stop()

    def enter(self, phase: str) -> None:
        """Ends the current phase and begins another one."""
        if self._is_measuring and phase != self._phase:
            peak = self._meter.take()
            self.peaks[self._phase] = self.peaks.get(self._phase, MeasuredPeak()).most(peak)
        self._phase = phase

    def saved(self) -> None:
        """Counts the peak since the last step as phase `save`, because a checkpoint was written."""
        if self._is_measuring and self._phase == BETWEEN:
            self._phase = "save"
            self.enter(BETWEEN)

    def evaluated(self) -> None:
        """Ends the phase of an evaluation."""
        if self._phase == "evaluation":
            self.enter(BETWEEN)

    @property
    def peak(self) -> MeasuredPeak:
        """The highest peak of all phases."""
        found = MeasuredPeak()
        for one in self.peaks.values():
            found = found.most(one)
        return found

    def by_phase(self) -> Mapping[str, MeasuredPeak]:
        return {name: self.peaks[name] for name in PHASES if name in self.peaks}

    def _before_forward(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not module.training:
            self.enter("evaluation")
            return
        batch = batch_shape(args, kwargs)
        is_longest = batch[0] * batch[1] > self.longest[0] * self.longest[1]
        if is_longest:
            self.longest = batch
        wanted = is_longest or self.steps < ALWAYS_MEASURED or (self._is_measuring and self._phase == "backward")
        if wanted and not self._is_measuring:
            self._meter.take()  # discards the peak of steps that were not measured
        self._is_measuring = wanted
        self.enter("forward")

    def _after_forward(self, module: torch.nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if module.training:
            self.enter("backward")

    def _before_step(self, *_: Any) -> None:
        self.enter("optimizer_step")

    def _after_step(self, *_: Any) -> None:
        self.steps += 1
        self.measured_steps += self._is_measuring
        self.enter(BETWEEN)


def batch_shape(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[int, int]:
    """(sequences, tokens of each) of a model's inputs; (0, 0) if no input has two dimensions."""
    first = (kwargs.get("input_ids"), kwargs.get("inputs_embeds"), *args, *kwargs.values())
    for tensor in first:
        if isinstance(tensor, torch.Tensor) and tensor.dim() >= 2:
            return int(tensor.shape[0]), int(tensor.shape[1])
    return 0, 0
