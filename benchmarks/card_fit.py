"""The card's interval on rows that took no part in fitting it.

    python benchmarks/card_fit.py

Fitting here is a procedure, so that it can be repeated on any part of the rows: each class of runs (device.slack_kind)
keeps the terms of device.json, scaled by one factor (least median error), with margins that leave one row in twenty
outside on each side. A class without rows takes the margins of all the rows together.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.measured import DEVICE_METRICS, GIB, ROWS, rows
from benchmarks.stacks import LeftOut, run_of
from memlint.memory import device
from memlint.memory.estimate import estimate
from memlint.run import Run

_TERMS = ("activations", "logits", "quantized_logits", "scores", "allocated", "fixed_gib")
_SCALES = tuple(step / 20 for step in range(61))
_OUTSIDE = 0.05
_LEAST = 3  # rows of a class that make it worth a fit of its own


class Shown(NamedTuple):
    """A run with what its card showed, bytes."""

    source: str
    file: str
    run: Run
    allocated: int
    details: Mapping[str, int]
    shown: float

    @property
    def kind(self) -> str:
        return device.slack_kind(self.run, self.details)

    def card(self, table: Mapping[str, Any]) -> device.Card:
        return device.card(self.allocated, self.run, self.details, table)


def shown() -> list[Shown]:
    found = []
    for row in rows(ROWS):
        other = row.get("other_metrics") or {}
        reading = next((float(other[name]) for name in DEVICE_METRICS if name in other), 0.0)
        if row["metric"] != "max_allocated" or not reading:
            continue
        try:
            run = run_of(row)
        except LeftOut:
            continue
        made = estimate(run)
        if made.allocated_bytes is not None:
            file = row["source"].split(" line ")[0].split(" runs[")[0]
            found.append(Shown(row["source"], file, run, made.allocated_bytes, made.details, reading * GIB))
    return found


def fit(chosen: Sequence[Shown]) -> Mapping[str, Any]:
    """device.json with every class fitted on `chosen`."""
    shipped: Mapping[str, Mapping[str, Any]] = device.constants()["slack"]
    common = _margins(chosen, device.constants())
    slack: dict[str, Any] = {}
    for kind, entry in shipped.items():
        own = [one for one in chosen if one.kind == kind]
        if len(own) < _LEAST:
            slack[kind] = dict(zip(("low", "high"), common, strict=True))
            continue
        tables = [_scaled(kind, entry, scale) for scale in _SCALES]
        best = min(tables, key=lambda table: median(abs(_error(one, table)) for one in own))
        low, high = _margins(own, best)
        slack[kind] = {**best["slack"][kind], "low": low, "high": high}
    return device.overridden({"slack": slack})


def _scaled(kind: str, entry: Mapping[str, Any], scale: float) -> Mapping[str, Any]:
    terms = {name: entry[name] * scale for name in _TERMS if name in entry}
    return device.overridden({"slack": {kind: terms}})


def _error(one: Shown, table: Mapping[str, Any]) -> float:
    return one.shown / one.card(table).device - 1


def _margins(chosen: Sequence[Shown], table: Mapping[str, Any]) -> tuple[float, float]:
    errors = sorted(_error(one, table) for one in chosen)
    if not errors:
        return 0.0, 0.0
    out = int(_OUTSIDE * len(errors))
    return min(0.0, errors[out]), max(0.0, errors[-1 - out])


def judged(chosen: Sequence[Shown], table: Mapping[str, Any]) -> tuple[int, float, float]:
    """(rows, share inside, median width over what was shown)."""
    cards = [(one.shown, one.card(table)) for one in chosen]
    inside = sum(card.low <= reading <= card.high for reading, card in cards) / len(cards)
    return len(cards), inside, median((card.high - card.low) / reading for reading, card in cards)


def half(one: Shown) -> int:
    """0 or 1, by a hash of where the row comes from: nothing about the run decides it."""
    return hashlib.sha256(one.source.encode()).digest()[0] % 2


def lines() -> list[str]:
    """The card's interval on rows that took no part in fitting it."""
    every = shown()
    found = ["| fitted on | judged on | rows | covered | median width |", "|---|---|---|---|---|"]
    found.append(_row("as shipped", "all", judged(every, device.constants())))
    halves = [[one for one in every if half(one) == side] for side in (0, 1)]
    for name, own, other in (("one half", *halves), ("the other half", *reversed(halves))):
        table = fit(own)
        found.append(_row("as shipped", name, judged(own, device.constants())))
        found.append(_row(name, "itself", judged(own, table)))
        found.append(_row(name, "what is left", judged(other, table)))
    for file in sorted({one.file for one in every}):
        own = [one for one in every if one.file == file]
        rest = [one for one in every if one.file != file]
        found.append(_row("all other sources", _short(file), judged(own, fit(rest))))
    return [*found, "", *_SAID]


_SAID = [
    "Halves are drawn by a hash of each row's source. The shipped margins were chosen with all these rows in sight;",
    "what a fit is worth on rows that it never saw is the line `what is left`, and on a whole file that it never saw",
    "the last lines: a file is another model or other kernels, and classes without rows take everybody's margins.",
]


def _short(file: str) -> str:
    owner = "fms-acceleration" if "fms-acceleration" in file else "fitcheck-llm"
    return f"{owner} {file.rpartition('/')[2]}"


def _row(fitted: str, on: str, figures: tuple[int, float, float]) -> str:
    count, inside, width = figures
    return f"| {fitted} | {on} | {count} | {inside:.1%} | {width:.1%} |"


if __name__ == "__main__":
    print("\n".join(lines()))
