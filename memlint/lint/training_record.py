"""Reads the file that `memlint.train` writes about a training (`memlint-run.json`) and judges its credibility."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memlint.errors import UsageError
from memlint.memory.card.measurements import Measurement

KIND = "memlint training record"
SCHEMA_VERSION = 1
MAX_BYTES = 10 * 2**20
MOST_APART = 2.0  # measured / estimated: beyond this factor (or its inverse) it measures something else
_MIN_STEPS = 2  # the first step creates the optimizer states; only later ones show the peak


def is_training_record(data: bytes) -> bool:
    """Whether a file's bytes are such a record."""
    return KIND.encode() in data[:4096]


def measurements_of(data: bytes, path: str) -> tuple[Measurement, ...]:
    """The measurements in a record: bytes of tensors, and bytes that the allocator reserved.

    Raises UsageError, with the reason, for a record that is damaged or not credible.
    """
    try:
        record = json.loads(data)
        reasons = tuple(_doubts(record))
        if reasons:
            raise UsageError(f"{path}: not taken: {'; '.join(reasons)}")
        return tuple(_measurements(record, path))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UsageError(f"{path}: no training record ({type(error).__name__}: {error})") from None


def _measurements(record: dict[str, Any], path: str) -> Iterator[Measurement]:
    for metric, name in (("max_allocated", "allocated_bytes"), ("max_reserved", "reserved_bytes")):
        measured, predicted = record["measured"][name], record["predicted"][name]
        yield Measurement(str(record["stack"]), metric, int(measured), int(predicted), path)


def _doubts(record: dict[str, Any]) -> Iterator[str]:
    """Why the record is not credible."""
    if record["schema_version"] != SCHEMA_VERSION:
        yield f"schema version {record['schema_version']}, this memlint reads {SCHEMA_VERSION}"
        return
    if record["device"] != "cuda":
        yield "it counts tensors on the CPU, which says nothing of a card"
        return
    if not record["stack"] or not record["predicted"]["allocated_bytes"]:
        yield "memlint had no estimate of this training to compare with"
        return
    measured, predicted = record["measured"], record["predicted"]
    allocated, reserved, alive = measured["allocated_bytes"], measured["reserved_bytes"], measured["state_bytes"]
    if record["steps"] < _MIN_STEPS:
        yield f"{record['steps']} steps: the optimizer's states are there from the second on"
    if allocated < alive:
        yield f"a peak of {allocated} bytes is below {alive} bytes of weights, gradients and states alive at the end"
    if reserved < allocated:
        yield f"reserved {reserved} bytes are below {allocated} allocated ones"
    if not 1 / MOST_APART <= allocated / predicted["allocated_bytes"] <= MOST_APART:
        share = allocated / predicted["allocated_bytes"]
        yield f"tensors took {share:.2f} times the estimate: another model or code shares the card"
