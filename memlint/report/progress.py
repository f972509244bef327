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
    if total == 1:
        with Busy("", out):
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


class Busy:
    """Says on a terminal that something is under way, and for how long, from the second second on."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._out = sys.stderr if stream is None else stream

    def __enter__(self) -> None:
        self._thread = None
        if self._out.isatty():
            from threading import Event, Thread  # for terminals

            self._done = Event()
            self._thread = Thread(target=self._tell, daemon=True)
            self._thread.start()

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._done.set()
            self._thread.join()

    def _tell(self) -> None:
        began = time.monotonic()
        wait = PATIENCE
        while not self._done.wait(wait):
            wait = REDRAW
            self._out.write(f"\r\x1b[2Kmemlint: {self._what}{', ' * bool(self._what)}{time.monotonic() - began:.0f} s")
            self._out.flush()
        if wait == REDRAW:
            self._out.write("\r\x1b[2K")
            self._out.flush()
