"""A progress line on the terminal for long runs; never in a pipe, never in the first second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO, TypeVar

Item = TypeVar("Item")

PATIENCE = 1.0  # seconds before the line first appears
REDRAW = 0.1  # seconds between updates


def watched(items: Iterable[Item], total: int, stream: TextIO | None = None) -> Iterator[Item]:
    """Yields `items`; on a terminal it also shows how many of `total` are done, the rate and the time left."""
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


class Busy:
    """A context manager that shows on a terminal what is running and for how long, after the first second."""

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
