"""What the modules that add readings to runs share: whose runs get them, and the fields in which readings differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memlint.formats.base import Parsed
from memlint.run import Reading, Run

# The parts of a run that a reading may change.
SECTIONS = Run._fields[Run._fields.index("model") : Run._fields.index("hardware")]


def with_readings(
    parsed: Parsed, is_open: Callable[[Run], bool], readings: Callable[[Run, int], Iterable[Reading]]
) -> Parsed:
    """The same runs; those that are open get the readings of the run with that index besides their own."""
    runs = tuple(
        run._replace(readings=(*run.readings, *readings(run, index))) if is_open(run) else run
        for index, run in enumerate(parsed.runs)
    )
    return parsed._replace(runs=runs)
