"""A user's own measurements, which narrow the card's interval for the stack that they were taken on.

The prediction for tensors never changes: a measured `max_allocated` is stored and reported beside it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable

import memlint.atomic_files as files
from memlint._record import NamedTuple
from memlint.memory.card.measurements import FILE, Measurement, load
from memlint.run import Run, stack_name

METRICS = ("max_allocated", "max_reserved", "nvidia-smi")
MIN_MEASUREMENTS = 3  # measurements before an interval narrows
_MIN_SPREAD = 0.02  # repeats of one run differ by less than this in reserved memory
_SIZE = r"\s*(\d+(?:\.\d+)?)\s*(GiB|MiB|GB|MB|G|M|B)?\s*"
_UNITS = {"gib": 1 << 30, "mib": 1 << 20, "gb": 10**9, "mb": 10**6, "g": 1 << 30, "m": 1 << 20, "b": 1, "": 1}


class MeasuredInterval(NamedTuple):
    """An interval in bytes, and in words the measurements that it is based on ("" = none of this stack)."""

    device: int
    low: int
    high: int
    basis: str = ""


def size(text: str) -> int:
    """Bytes in "71.3GiB", "73012MiB" (nvidia-smi's unit), "76.5 GB". Raises ValueError for anything else."""
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if not match:
        raise ValueError(f"not a size: {text!r} (write 71.3GiB or 73012MiB)")
    return int(float(match[1]) * _UNITS[(match[2] or "").lower()])


def stack_of(run: Run) -> str:
    """What must be equal for a measurement to apply to another run: framework, engine, GPU, PyTorch, method."""
    gpu = run.hardware.gpu.name if run.hardware.gpu else "any GPU"
    torch = ".".join(str(part) for part in run.stack.torch[:2])
    kind = "full" if run.method.kind in ("full", "freeze") else "adapter"
    return f"{stack_name(run)} {run.parallelism.engine} {kind} on {gpu} with torch {torch}"


def record(folder: str, measurement: Measurement) -> None:
    """Adds a measurement to the file in `folder`. Raises ValueError for a bad one, and NotWritten."""
    if measurement.metric not in METRICS:
        raise ValueError(f"unknown metric {measurement.metric!r} (one of {', '.join(METRICS)})")
    if measurement.measured <= 0 or measurement.predicted <= 0:
        raise ValueError("a measurement and its prediction must be positive")
    rows = [row._asdict() for row in (*load(folder), measurement)]
    files.write_whole(os.path.join(folder, FILE), [json.dumps(rows, indent=1).encode(), b"\n"])


def measured_interval(
    device: int, low: int, high: int, run: Run, measurements: Iterable[Measurement], reserved: int
) -> MeasuredInterval:
    """The card's interval after measurements on the same stack. `reserved`: the part of `device` that PyTorch reserves.

    With fewer than three measurements nothing changes. The new interval is the range of measured / predicted, widened
    by a quarter, and never wider than the old one. Measurements of `max_reserved` only narrow that part.
    """
    stack = stack_of(run)
    shares = {"nvidia-smi": 1.0, "max_reserved": reserved / device if device else 1.0}
    ratios = sorted(
        1 + shares[measurement.metric] * (measurement.measured / measurement.predicted - 1)
        for measurement in measurements
        if measurement.stack == stack and measurement.metric in shares
    )
    if len(ratios) < MIN_MEASUREMENTS:
        return MeasuredInterval(device, low, high)
    centre = ratios[len(ratios) // 2]
    spread = max(_MIN_SPREAD, 1.25 * max(centre - ratios[0], ratios[-1] - centre))
    if 2 * spread * device >= high - low:
        return MeasuredInterval(device, low, high)
    new = int(device * centre)
    return MeasuredInterval(
        new, int(device * (centre - spread)), int(device * (centre + spread)), f"{len(ratios)} measurements of {stack}"
    )
