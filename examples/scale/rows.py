"""Checks configs as rows (path, text), in whatever engine holds them: `check_row` is all that an engine calls.

Rules are read once per worker process; each row after that costs a few milliseconds. A row is judged by itself: what it
needs from other files, and the card, come with it or with the call.
"""

from __future__ import annotations

import json
from typing import Any

import memlint

GPU = "A100-80GB"


def check_row(path: str, text: str, gpu: str = GPU) -> dict[str, Any]:
    """One row of results: the verdict, bytes on the card, and findings as JSON. A row that is no config says so."""
    found = memlint.check(text, path=path, gpu=gpu, fixes=False)
    run = next(iter(found.runs), None)
    return {
        "path": path,
        "verdict": run.verdict if run else "no training config",
        "device_bytes": run.device_bytes if run else None,
        "worst": found.worst(),
        "findings": json.dumps([(item.rule, item.location.line, item.message) for item in found.findings]),
    }


def check_batch(batch: dict[str, Any], gpu: str = GPU) -> dict[str, list[Any]]:
    """The same for a batch of columns, as Ray Data's `map_batches` and pandas give them."""
    rows = [check_row(str(path), str(text), gpu) for path, text in zip(batch["path"], batch["text"])]
    return {name: [row[name] for row in rows] for name in ("path", "verdict", "device_bytes", "worst", "findings")}
