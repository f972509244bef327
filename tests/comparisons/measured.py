"""Predictions beside published measurements."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from memlint.memory.estimate import estimate
from memlint.run import Run
from tests.comparisons.stacks import LeftOut, Row, run_of

GIB = 1 << 30
ROWS = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "measured_runs.jsonl"
DEVICE_METRICS = ("nvidia_smi_minus_idle_gib", "process_gib")


class Scored(NamedTuple):
    id: str
    measured: float  # GiB
    predicted: float
    phase: str
    device: float = 0.0  # measured on the card, 0 = not
    low: float = 0.0
    central: float = 0.0
    high: float = 0.0
    verdict: str = ""

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def rows(path: Path, low_confidence: bool = False) -> Iterable[Row]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if low_confidence or row["confidence"] != "low":
                yield row


def closed_form(run: Run, row: Row) -> Scored:
    found = estimate(run)
    if found.allocated_bytes is None:
        raise LeftOut("; ".join(f"{one.field}: {one.reason}" for one in found.unknown))
    other = row.get("other_metrics") or {}
    device = next((float(other[name]) for name in DEVICE_METRICS if name in other), 0.0)
    card = [(size or 0) / GIB for size in (found.device_low_bytes, found.device_bytes, found.device_high_bytes)]
    return Scored(
        row["id"], row["measured_gib"], found.allocated_bytes / GIB, found.peak_phase, device, *card, found.verdict
    )


def score(chosen: Iterable[Row], predict: Callable[[Run, Row], Scored]) -> tuple[list[Scored], list[tuple[str, str]]]:
    scored: list[Scored] = []
    left: list[tuple[str, str]] = []
    for row in chosen:
        if row["metric"] != "max_allocated":
            left.append((row["id"], f"metric {row['metric']}: not the tensors' figure (see the card)"))
            continue
        try:
            scored.append(predict(run_of(row), row))
        except LeftOut as reason:
            left.append((row["id"], str(reason)))
        except Exception as error:  # a defect of the estimator, listed so that it is seen
            left.append((row["id"], f"RAISED {type(error).__name__}: {error}"))
    return scored, left


@cache
def published() -> tuple[list[Scored], list[tuple[str, str]]]:
    """The closed form beside the published measurements, as `score` gives it."""
    return score(rows(ROWS), closed_form)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0
