"""The callback for transformers' Trainer and for TRL's trainers, which are subclasses of it."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

import memlint.train.live as live
from memlint.train.guard import attempted, logger
from memlint.train.predict import Training, length_of
from memlint.train.record import TrainingRecord
from memlint.train.session import Session, record_of


class MemoryCallback(TrainerCallback):  # type: ignore[misc]
    """Estimates a training before its first step, measures it, and prints both at its end.

    `on_misfit`: what to do if the estimate does not fit the card: "warn", "stop" or "ignore". `gpu`: the card to
    compare with (default: the one in use). `length`: tokens of the longest sequence, if the arguments do not state it
    (default: that of the first batch). `log`: called with the numbers at the last step; `memlint.train.watch` passes
    the trainer's own, so that they reach W&B, MLflow or TensorBoard. `called`: returns the object that the trainer
    calls, which is the compiled model if there is one; transformers passes callbacks only the model inside.
    """

    def __init__(
        self,
        on_misfit: str = "warn",
        gpu: str | None = None,
        length: int = 0,
        log: Callable[[dict[str, float]], Any] | None = None,
        called: Callable[[], Any] | None = None,
    ) -> None:
        self.record: TrainingRecord | None = None
        self._options = (on_misfit, gpu, length)
        self._log, self._called = log, called
        self._session: Session | None = None
        self._has_logged = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        attempted(lambda: self._begin(args, kwargs))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        attempted(self._saved)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        attempted(self._evaluated)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log_at_last_step(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._log_at_last_step(control)  # an evaluation after the last step may have stopped the training

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        attempted(lambda: self._finish(args))

    def _begin(self, args: Any, given: dict[str, Any]) -> None:
        if self._session is not None:  # from a training that was aborted, for example by `auto_find_batch_size`
            self._session.stop()
        self._session, self._has_logged = None, False
        on_misfit, gpu, length = self._options
        arguments = args.to_dict()
        batch = (args.per_device_train_batch_size, length or length_of(arguments))
        training = Training(
            self._called_model(given["model"]), given.get("optimizer"), arguments, batch, gpu, live.stage(args)
        )
        self._session = Session(training, on_misfit)
        self._session.start()

    def _called_model(self, model: Any) -> Any:
        """The compiled model, because its hooks run outside of compiled code; the model itself if it is not
        compiled."""
        outer = self._called() if self._called is not None else None
        return outer if live.is_compiled(outer) else model

    def _saved(self) -> None:
        if self._session is not None:
            self._session.recorder.saved()

    def _evaluated(self) -> None:
        if self._session is not None:
            self._session.recorder.evaluated()

    def _log_at_last_step(self, control: Any) -> None:
        """Logs the numbers at the last step, before the trainer's reporters close."""
        if not control.should_training_stop or self._has_logged:
            return
        self._has_logged = True
        wanted = control.should_log
        attempted(self._tell)
        # The Trainer's `log` clears it, on the first rank alone (transformers 5.23 trainer_callback.py, on_log):
        # the ranks would then disagree on what they gather next.
        control.should_log = wanted

    def _tell(self) -> None:
        record = None if self._log is None else record_of(self._session)
        if record is not None and self._log is not None:
            self._log(record.metrics())

    def _finish(self, args: Any) -> None:
        if self._session is not None:
            attempted(self._session.stop)
        self.record = record_of(self._session)
        self._session = None
        if self.record is not None:
            logger.info("%s", self.record)
            path = self.record.write(args.output_dir)
            logger.info("written to %s: `memlint calibrate %s` learns from it", path, path)


def watch(trainer: Any, on_misfit: str = "warn", gpu: str | None = None, length: int = 0) -> MemoryCallback:
    """Adds the callback to a trainer, with the trainer's own `log`, which passes numbers to its reporters."""
    reference = weakref.ref(trainer)

    def log(values: dict[str, float]) -> None:
        owner = reference()
        if owner is not None:
            owner.log(values)

    callback = MemoryCallback(on_misfit, gpu, length, log, lambda: getattr(reference(), "model_wrapped", None))
    trainer.add_callback(callback)
    return callback
