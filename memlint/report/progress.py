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
    """`items`, and on a terminal how many of `total` went by."""
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
                out.write(f"\r\x1b[2Kmemlint: {number} of {total} files, {now - began:.0f} s")
                out.flush()
            yield item
    finally:
        if shown:
            out.write("\r\x1b[2K")
            out.flush()
