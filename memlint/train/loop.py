"""The context manager for custom training loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from memlint.train.guard import attempted, logger
from memlint.train.predict import Training
from memlint.train.record import TrainingRecord
from memlint.train.session import Session, record_of


class LoopMemory:
    """The results for a loop: `estimate` from the first batch on, `record` after the block."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.record: TrainingRecord | None = None

    @property
    def estimate(self) -> Any:
        return self._session.estimate

    def saved(self) -> None:
        """To be called after a checkpoint was written: the peak since the last step then counts as phase `save`."""
        attempted(self._session.recorder.saved)


@contextmanager
def measure(
    model: torch.nn.Module,
    optimizer: Any = None,
    *,
    arguments: Mapping[str, Any] | None = None,
    batch: tuple[int, int] = (0, 0),
    gpu: str | None = None,
    on_misfit: str = "warn",
    folder: str | None = None,
) -> Iterator[LoopMemory]:
    """Measures the training steps inside of the `with` block, phase by phase.

    `model`: the object that the loop calls, wrapped or not. `arguments`: the training's options under their names in
    TrainingArguments (`bf16`, `gradient_checkpointing`, `max_grad_norm`). `batch`: (sequences, tokens of each) for an
    estimate before the first batch. `folder`: where to write `memlint-run.json` (None: nowhere). Every rank must leave
    the block.
    """
    session = Session(Training(model, optimizer, arguments or {}, batch, gpu), on_misfit)
    memory = LoopMemory(session)
    attempted(session.start)
    try:
        yield memory
    finally:
        attempted(lambda: _finish(session, memory, folder))


def _finish(session: Session, memory: LoopMemory, folder: str | None) -> None:
    attempted(session.stop)
    memory.record = record_of(session)
    if memory.record is None:
        return
    logger.info("%s", memory.record)
    if folder is not None:
        memory.record.write(folder)
