"""What a run would need with another batch, length, checkpointing or attention: estimated when the page is made."""

from __future__ import annotations

from itertools import product
from typing import Any

from memlint.memory import estimate
from memlint.report.model import WhatIf
from memlint.run import UNKNOWN, Run, get, replace

BATCHES = (1, 2, 4, 8, 16)
FACTORS = (0.25, 0.5, 1, 2, 4)
SHORTEST = 128  # tokens
LONGEST = 1_048_576
CHECKPOINTING = ("none", "full")
ATTENTION = ("eager", "sdpa", "flash_attention_2")
MIB = 2**20
MANY_FILES = 200
AXES = ("batch.micro_batch_size", "sequence.length", "checkpointing.mode", "attention.implementation")


def detail_for(files: int) -> str:
    """How fine the grids of a page are: in a large repository they would take longer than everything else."""
    return "full" if files <= MANY_FILES else "small"


def what_if(run: Run, detail: str) -> WhatIf | None:
    """The grid of a run, "full" or "small"; None for one that cannot be estimated."""
    now = tuple(get(run, name) for name in AXES)
    if any(value is UNKNOWN for value in now) or run.purpose != "train":
        return None
    axes = _axes(now) if detail == "full" else _few(now)
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


def _few(now: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Half and double of batch and length, checkpointing on and off, attention as it is."""
    batch, length, checkpointing, attention = now
    return (
        tuple(sorted({max(1, batch // 2), batch, batch * 2})),
        tuple(sorted({max(SHORTEST, length // 2), length, min(LONGEST, length * 2)})),
        tuple(dict.fromkeys((*CHECKPOINTING, checkpointing))),
        (attention,),
    )


def _cell(run: Run, values: tuple[Any, ...]) -> tuple[int, int, int, str] | None:
    """(low, middle, high, verdict), MiB; None where it cannot be estimated."""
    try:
        told = estimate(replace(run, dict(zip(AXES, values))))
    except Exception:
        return None  # a combination that the model has no meaning for
    if told.device_bytes is None or told.device_low_bytes is None or told.device_high_bytes is None:
        return None
    sizes = (told.device_low_bytes, told.device_bytes, told.device_high_bytes)
    low, middle, high = (round(size / MIB) for size in sizes)
    return low, middle, high, told.verdict
