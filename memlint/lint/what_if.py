"""Estimates a run with other batch sizes, lengths, checkpointing and attention, for the grid of an HTML page."""

from __future__ import annotations

from itertools import product
from typing import Any

from memlint.memory import estimate
from memlint.report.card_figures import words_of
from memlint.report.model import WhatIf
from memlint.run import UNKNOWN, Run, get, replace

BATCHES = (1, 2, 4, 8, 16)
FACTORS = (0.25, 0.5, 1, 2, 4)
SHORTEST = 128  # tokens
LONGEST = 1_048_576
CHECKPOINTING = ("none", "full")
ATTENTION = ("eager", "sdpa", "flash_attention_2")
KIB = 2**10
MANY_FILES = 200
AXES = ("batch.micro_batch_size", "sequence.length", "checkpointing.mode", "attention.implementation")


def detail_for(files: int) -> str:
    """The detail of grids: "full", or "small" for many files, where full grids would take longer than all the rest."""
    return "full" if files <= MANY_FILES else "small"


def what_if(run: Run, detail: str) -> WhatIf | None:
    """The grid of a run; None if it cannot be estimated. `detail`: "full" or "small"."""
    now = tuple(get(run, name) for name in AXES)
    if any(value is UNKNOWN for value in now) or run.purpose != "train":
        return None
    axes = _axes(now) if detail == "full" else _small_axes(now)
    cells = tuple(_cell(run, values) for values in product(*axes))
    if not any(cells):
        return None
    return WhatIf(axes, tuple(axis.index(value) for axis, value in zip(axes, now)), cells)


def _axes(now: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    batch, length, checkpointing, attention = now
    lengths = {min(LONGEST, max(SHORTEST, int(length * factor))) for factor in FACTORS} | {length}
    return (
        tuple(sorted({*BATCHES, batch})),
        tuple(sorted(lengths)),
        tuple(dict.fromkeys((*CHECKPOINTING, checkpointing))),
        tuple(dict.fromkeys((*ATTENTION, attention))),
    )


def _small_axes(now: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Axes of a small grid: half and double of batch and length, checkpointing on and off, the run's attention."""
    batch, length, checkpointing, attention = now
    return (
        tuple(sorted({max(1, batch // 2), batch, batch * 2})),
        tuple(sorted({max(SHORTEST, length // 2), length, min(LONGEST, length * 2)})),
        tuple(dict.fromkeys((*CHECKPOINTING, checkpointing))),
        (attention,),
    )


def _cell(run: Run, values: tuple[Any, ...]) -> tuple[int, int, int, str] | None:
    """(low, central, high, verdict in words), KiB on the card; None if it cannot be estimated."""
    try:
        result = estimate(replace(run, dict(zip(AXES, values))))
    except Exception:
        return None  # a combination that the model does not support
    if result.device_bytes is None or result.device_low_bytes is None or result.device_high_bytes is None:
        return None
    sizes = (result.device_low_bytes, result.device_bytes, result.device_high_bytes)
    low, middle, high = (round(size / KIB) for size in sizes)
    return low, middle, high, words_of(result)
