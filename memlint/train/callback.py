"""The callback for transformers' Trainer and for TRL's trainers, which are made of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from memlint.train.guard import guarded, logger
from memlint.train.predict import Training, length_of
from memlint.train.record import TrainingRecord
from memlint.train.session import Session


class MemoryCallback(TrainerCallback):  # type: ignore[misc]
    """Estimates a training before its first step, measures it, and sets both side by side at its end.

    `on_misfit`: "warn", "stop" or "ignore", where the estimate does not fit the card. `gpu`: the card to compare with
    (default: the one at hand). `length`: tokens of the longest sequence, where the arguments do not say (default: that
    of the first batch). `log`: takes the numbers at the last step; `memlint.train.watch` gives the trainer's own, so
    that they reach W&B, MLflow or TensorBoard.
    """

    def __init__(
        self,
        on_misfit: str = "warn",
        gpu: str | None = None,
        length: int = 0,
        log: Callable[[dict[str, float]], Any] | None = None,
    ) -> None:
        self.record: TrainingRecord | None = None
        self._options = (on_misfit, gpu, length)
        self._log = log
        self._session: Session | None = None
        self._has_logged = False
        for name in ("_begin", "_finish", "_saved", "_tell"):
            setattr(self, name, guarded(getattr(self, name)))

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._begin(args, kwargs)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._saved()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if control.should_training_stop and not self._has_logged:  # reporters may close when the training ends
            self._has_logged = True
            wanted = control.should_log
            self._tell()
            # The Trainer's `log` clears it, on the first rank alone (transformers 5.23 trainer_callback.py, on_log):
            # the ranks would then disagree on what they gather next.
            control.should_log = wanted

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._finish(args)

    def _begin(self, args: Any, given: dict[str, Any]) -> None:
        on_misfit, gpu, length = self._options
        arguments = args.to_dict()
        batch = (args.per_device_train_batch_size, length or length_of(arguments))
        training = Training(given["model"], given.get("optimizer"), arguments, batch, gpu)
        self._session = Session(training, on_misfit)
        self._session.start()

    def _saved(self) -> None:
        if self._session is not None:
            self._session.recorder.saved()

    def _tell(self) -> None:
        """Numbers for the reporters, while they still listen."""
        if self._session is None or self._log is None:
            return
        record = self._session.record()
        if record is not None:
            self._log(record.metrics())

    def _finish(self, args: Any) -> None:
        if self._session is None:
            return
        self._session.stop()
        self.record = self._session.record()
        self._session = None
        if self.record is not None:
            logger.info("%s", self.record)
            path = self.record.write(args.output_dir)
            logger.info("written to %s: `memlint calibrate %s` learns from it", path, path)


def watch(trainer: Any, on_misfit: str = "warn", gpu: str | None = None, length: int = 0) -> MemoryCallback:
    """Adds the callback to a trainer, with the trainer's own `log`, which its reporters hear."""
    reference = weakref.ref(trainer)

    def log(values: dict[str, float]) -> None:
        owner = reference()
        if owner is not None:
            owner.log(values)

    callback = MemoryCallback(on_misfit, gpu, length, log)
    trainer.add_callback(callback)
    return callback
