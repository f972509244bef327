"""Files to reports, in worker processes where there are enough of them; the order never depends on which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from memlint._garbage import settle
from memlint._stages import abreast
from memlint.lint.linter import Job, Linted, Linter
from memlint.report.progress import watched
from memlint.repository.discovery import Found

# Below this many files starting workers costs more than they save (measured: benchmarks/repository.py).
WORTH_WORKERS = 500
# Files that go through the stages side by side, and how many bytes they may have together: what they hold stays small.
ABREAST = 16
BYTES = 256 * 1024

_linter: Linter | None = None


def linted(what: Job, found: Sequence[Found], jobs: int | None) -> Iterator[Linted]:
    """A report a file, in the order of `found`."""
    workers = jobs or (_processors() if len(found) >= WORTH_WORKERS else 1)
    if workers <= 1 or len(found) < 2:
        return watched(_serial(what, found), len(found))
    return watched(_parallel(what, found, workers), len(found))


def _serial(what: Job, found: Sequence[Found]) -> Iterator[Linted]:
    linter = Linter(what)
    for row in _rows(found):
        yield from _side_by_side(linter, row)
        settle()


def _rows(found: Sequence[Found]) -> Iterator[list[Found]]:
    """The files in rows, in order; the first goes alone, as what it leaves behind is taken to stay."""
    row: list[Found] = []
    room = 0
    for item in found:
        size = _size(item.path)
        if row and (len(row) == ABREAST or size > room):
            yield row
            row, room = [], BYTES
        row.append(item)
        room -= size
    if row:
        yield row


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # standard input, or gone since: its stages say so
        return 0


def _side_by_side(linter: Linter, row: Sequence[Found]) -> list[Linted]:
    return abreast([linter.stages(item.path, item.named) for item in row])


def _processors() -> int:
    """The processors that this process may use: a container is often given fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parallel(what: Job, found: Sequence[Found], workers: int) -> Iterator[Linted]:
    from multiprocessing import get_context

    settle()
    method = "fork" if hasattr(os, "fork") else "spawn"
    with get_context(method).Pool(workers, _start, (what,)) as pool:
        for row in pool.imap(_lint, _rows(found)):
            yield from row
        pool.close()
        pool.join()  # else they are ended in the middle of their own ending


def _start(what: Job) -> None:
    global _linter
    _linter = Linter(what)


def _lint(row: Sequence[Found]) -> list[Linted]:
    assert _linter is not None
    return _side_by_side(_linter, row)
