"""Accompanies one training: makes the estimate before it, the measurements during it, the record after it."""

from __future__ import annotations

from typing import Any

import torch

import memlint.train.live as live
from memlint.api.results import RunEstimate
from memlint.errors import Error
from memlint.train.guard import DoesNotFit, attempted, guarded, logger
from memlint.train.meters import Meter, meter_for
from memlint.train.phases import PhaseRecorder, batch_shape
from memlint.train.predict import Training, is_known, predicted
from memlint.train.record import RankRecord, TrainingRecord

_UNSEEN = (
    "no call of the model was seen: hooks of a compiled model are not run. Use memlint.train.watch(trainer), "
    "or give memlint.train.measure what torch.compile returned"
)
MISFIT = ("warn", "stop", "ignore")


class Session:
    """Hooks on a model and its optimizer. `training`: the facts known before the first step.

    `on_misfit`: what to do if the estimate does not fit the card: "warn", "stop" (raise DoesNotFit) or "ignore".
    """

    def __init__(self, training: Training, on_misfit: str = "warn", meter: Meter | None = None) -> None:
        if on_misfit not in MISFIT:
            raise Error(f"on_misfit={on_misfit!r}: one of {', '.join(MISFIT)}")
        self.training = training
        self.estimate: RunEstimate | None = None
        self._on_misfit = on_misfit
        self._meter = meter or meter_for(training.model)
        self.recorder = PhaseRecorder(training.model, self._meter)
        self._first: Any = None

    def start(self) -> None:
        """Estimates the training now, or at the first batch if the length of sequences is not stated."""
        if self.training.batch[1]:
            self._estimate()
        else:
            hook = guarded(self._at_first_batch)
            self._first = self.training.model.register_forward_pre_hook(hook, with_kwargs=True)
        self.recorder.start(self.training.optimizer)

    def _at_first_batch(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._first.remove()
        try:
            self._estimate(batch_shape(args, kwargs))
        except DoesNotFit:
            self.stop()
            raise

    def _estimate(self, seen: tuple[int, int] | None = None) -> None:
        rank = live.world()[0]
        self.estimate = attempted(lambda: predicted(self.training, seen))
        if self.estimate is None:
            return
        if rank == 0:
            logger.info("estimate before the first step\n%s", self.estimate)
        if self.estimate.verdict != "out_of_memory" or self._on_misfit == "ignore":
            return
        message = f"this training does not fit its card: {self.estimate.verdict_words}\n{self.estimate}"
        if self._on_misfit == "stop":
            raise DoesNotFit(message)
        if rank == 0:
            logger.warning("%s", message)

    def own_record(self) -> RankRecord:
        """The measurements of this rank so far."""
        recorder = self.recorder
        bytes_alive = attempted(lambda: live.state_bytes(self.training.model, self.training.optimizer)) or 0
        return RankRecord(live.world()[0], dict(recorder.by_phase()), recorder.longest, recorder.steps, bytes_alive)

    def record(self, ranks: tuple[RankRecord, ...]) -> TrainingRecord:
        """The record of `ranks`, with the prediction for the longest batch that one of them saw."""
        longest = max((one.longest for one in ranks), key=lambda batch: batch[0] * batch[1])
        if self.recorder.steps and not any(longest):
            logger.warning(_UNSEEN)
        wanted = any(longest) and self.recorder.steps and self.estimate is not None
        found = attempted(lambda: predicted(self.training, longest)) if wanted else None
        return TrainingRecord(self._meter.device, ranks, found if found is not None and is_known(found) else None)

    def stop(self) -> None:
        if self._first is not None:
            self._first.remove()
        self.recorder.stop()


def record_of(session: Session | None) -> TrainingRecord | None:
    """The record of all ranks; None on all ranks but the first. Every rank must call it, even if its session failed,
    because the others wait for it."""
    own = attempted(session.own_record) if session is not None else None
    rank, world = live.world()
    ranks = gathered(own, world)
    return session.record(ranks) if session is not None and ranks and rank == 0 else None


def gathered(own: RankRecord | None, world: int) -> tuple[RankRecord, ...]:
    """The records of all ranks that have one."""
    found: list[Any] = [own]
    if world > 1:
        found = [None] * world
        torch.distributed.all_gather_object(found, own)
    return tuple(one for one in found if one is not None)
