"""The record of a training: predicted and measured memory, as a table, as numbers for a logger, and as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import memlint.atomic_files as files
from memlint._record import NamedTuple
from memlint.api.results import RunEstimate
from memlint.lint.training_record import KIND, SCHEMA_VERSION
from memlint.memory.card.calibration import stack_of
from memlint.report.units import gib
from memlint.train.meters import MeasuredPeak

FILE = "memlint-run.json"


class RankRecord(NamedTuple):
    """The measurements of one rank. `longest`: (sequences, tokens of each) of the longest batch. `state_bytes`: bytes
    of weights, gradients and optimizer states at the end."""

    rank: int
    phases: Mapping[str, MeasuredPeak]
    longest: tuple[int, int]
    steps: int
    state_bytes: int

    @property
    def peak(self) -> MeasuredPeak:
        found = MeasuredPeak()
        for one in self.phases.values():
            found = found.most(one)
        return found


class TrainingRecord(NamedTuple):
    """The records of all ranks. `predicted`: the estimate for the longest batch that was seen; None if there is none.
    `device`: cuda or cpu."""

    device: str
    ranks: tuple[RankRecord, ...]
    predicted: RunEstimate | None

    @property
    def worst(self) -> RankRecord:
        """The rank that needed most."""
        return max(self.ranks, key=lambda one: one.peak)

    def rows(self) -> Iterator[tuple[str, int | None, MeasuredPeak | None]]:
        """(phase, predicted bytes, the most that a rank measured)."""
        predicted = {phase.name: phase.allocated_bytes for phase in self.predicted.phases} if self.predicted else {}
        measured: dict[str, MeasuredPeak] = {}
        for one in self.ranks:
            for name, peak in one.phases.items():
                measured[name] = measured.get(name, MeasuredPeak()).most(peak)
        for name in dict.fromkeys((*predicted, *measured)):
            yield name, predicted.get(name), measured.get(name)

    def metrics(self) -> dict[str, float]:
        """Numbers in GiB for a logger, by name."""
        found: dict[str, float] = {}
        for name, predicted, peak in self.rows():
            if predicted is not None:
                found[f"memlint/predicted_{name}_gib"] = round(predicted / 2**30, 4)
            if peak is not None:
                found[f"memlint/measured_{name}_gib"] = round(peak.allocated / 2**30, 4)
        peak = self.worst.peak
        found["memlint/measured_peak_gib"] = round(peak.allocated / 2**30, 4)
        if peak.reserved:
            found["memlint/measured_reserved_gib"] = round(peak.reserved / 2**30, 4)
        if self.predicted and self.predicted.allocated_bytes:
            found["memlint/predicted_peak_gib"] = round(self.predicted.allocated_bytes / 2**30, 4)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The content of the file that `memlint calibrate` reads."""
        estimate = self.predicted.report.estimate if self.predicted else None
        worst = self.worst
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "device": self.device,
            "gpu": self.predicted.report.hardware.gpu if self.predicted else None,
            "stack": stack_of(self.predicted.run) if self.predicted else None,
            "summary": self.predicted.report.summary if self.predicted else "",
            "model": self.predicted.report.model.id if self.predicted else None,
            "longest_batch": list(worst.longest),
            "steps": worst.steps,
            "measured": {
                "allocated_bytes": worst.peak.allocated,
                "reserved_bytes": worst.peak.reserved,
                "state_bytes": worst.state_bytes,
            },
            "predicted": {
                "allocated_bytes": estimate.allocated_bytes if estimate else None,
                "reserved_bytes": estimate.reserved_bytes if estimate else None,
                "device_bytes": estimate.device_bytes if estimate else None,
            },
            "phases": {
                name: {"predicted_bytes": predicted, "measured_bytes": peak.allocated if peak else None}
                for name, predicted, peak in self.rows()
            },
            "ranks": [
                {
                    "rank": one.rank,
                    "longest_batch": list(one.longest),
                    "state_bytes": one.state_bytes,
                    "phases": {name: peak._asdict() for name, peak in one.phases.items()},
                }
                for one in self.ranks
            ],
        }

    def write(self, folder: str) -> str:
        """Writes the file into `folder` and returns its path. Raises OSError."""
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, FILE)
        files.write_whole(path, [json.dumps(self.to_dict(), indent=1).encode(), b"\n"])
        return path

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        what = "max_memory_allocated" if self.device == "cuda" else "bytes of live tensors"
        whose = f", the most of {len(self.ranks)} ranks" if len(self.ranks) > 1 else ""
        batch, length = self.worst.longest
        yield f"memory by phase: predicted for {batch} x {length} tokens, the longest batch; measured as {what}{whose}"
        yield f"  {'':16}{'predicted':>12}{'measured':>12}"
        for name, predicted, peak in self.rows():
            if predicted is None and peak is None:
                continue
            shown = f"{_amount(predicted):>12}{_amount(peak.allocated if peak else None):>12}"
            yield f"  {name.replace('_', ' '):16}{shown}{_difference(predicted, peak)}"
        if self.worst.peak.reserved:
            yield f"  {'reserved':16}{_amount(self._reserved()):>12}{_amount(self.worst.peak.reserved):>12}"

    def _reserved(self) -> int | None:
        return self.predicted.reserved_bytes if self.predicted else None


def _amount(size: int | None) -> str:
    """A size in GiB, or in MiB if it is small."""
    if size is None:
        return "-"
    return f"{gib(size)} GiB" if size >= 2**29 else f"{size / 2**20:.2f} MiB"


def _difference(predicted: int | None, peak: MeasuredPeak | None) -> str:
    if not predicted or peak is None or not peak.allocated:
        return ""
    return f"  {100 * (predicted / peak.allocated - 1):+.0f} %"
