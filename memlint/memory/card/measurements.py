"""The user's own measurements, as they are stored beside the settings file."""

from __future__ import annotations

import json
import os

import memlint.file_access as file_access
from memlint._record import NamedTuple

MOST_BYTES = 1 << 26
FILE = ".memlint-measurements.json"


class Measurement(NamedTuple):
    """One run measured by the user. Bytes. `predicted` is memlint's figure for the same metric, uncalibrated."""

    stack: str
    metric: str  # max_allocated, max_reserved, nvidia-smi
    measured: int
    predicted: int
    path: str = ""


def load(folder: str) -> tuple[Measurement, ...]:
    """The measurements stored in `folder`; none where there is no file. Raises ValueError for a damaged one."""
    path = os.path.join(folder, FILE)
    try:
        rows = json.loads(file_access.read(path, MOST_BYTES))
        return tuple(_measurement(row) for row in rows)
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"{path}: not a list of measurements ({error})") from error


def _measurement(row: dict[str, object]) -> Measurement:
    measured, predicted = int(str(row["measured"])), int(str(row["predicted"]))
    if measured <= 0 or predicted <= 0:
        raise ValueError("a measurement and its prediction must be positive")
    return Measurement(str(row["stack"]), str(row["metric"]), measured, predicted, str(row["path"]))
