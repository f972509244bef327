"""A line on the terminal that says how far a long run is; never in a pipe, never before a second has passed."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")

PATIENCE = 1.0  # seconds without a word
REDRAW = 0.1


def watched(items: Iterable[Item], total: int, stream: TextIO | None = None) -> Iterator[Item]:
    """`items`, and on a terminal how many of `total` went by, how fast, and how long the others take."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield from items
        return
    began = time.monotonic()
    due = began + PATIENCE
    shown = False
    try:
        for number, item in enumerate(items, 1):
            now = time.monotonic()
            if now >= due:
                shown, due = True, now + REDRAW
                out.write(f"\r\x1b[2Kmemlint: {progress(number, total, now - began)}")
                out.flush()
            yield item
    finally:
        if shown:
            out.write("\r\x1b[2K")
            out.flush()


def progress(done: int, total: int, seconds: float) -> str:
    """ "3,000 of 100,000 files, 412 files/s, 3 min 55 s left" """
    rate = done / max(seconds, 1e-9)
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"
    return f"{done:,} of {total:,} files, {speed} files/s, {_in_words((total - done) / rate)} left"


def _in_words(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
