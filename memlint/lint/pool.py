"""Files to reports, in worker processes where there are enough of them; the order never depends on which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from memlint.lint.linter import Job, Linted, Linter
from memlint.report.progress import watched
from memlint.repository.discovery import Found

# Below this many files starting workers costs more than they save (measured: benchmarks/speed/repository.py).
WORTH_WORKERS = 500
FILES_A_TASK = 16  # what a worker gets at a time

_linter: Linter | None = None


def linted(what: Job, found: Sequence[Found], jobs: int | None) -> Iterator[Linted]:
    """A report a file, in the order of `found`."""
    workers = jobs or (_processors() if len(found) >= WORTH_WORKERS else 1)
    if workers <= 1 or len(found) < 2:
        return watched(_serial(what, found), len(found))
    return watched(_parallel(what, found, workers), len(found))


def _serial(what: Job, found: Sequence[Found]) -> Iterator[Linted]:
    linter = Linter(what)
    return (linter.linted(item.path, item.named) for item in found)


def _processors() -> int:
    """The processors that this process may use: a container is often given fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parallel(what: Job, found: Sequence[Found], workers: int) -> Iterator[Linted]:
    from multiprocessing import get_context

    method = "fork" if hasattr(os, "fork") else "spawn"
    with get_context(method).Pool(workers, _start, (what,)) as pool:
        yield from pool.imap(_lint, found, chunksize=FILES_A_TASK)
        pool.close()
        pool.join()  # else they are ended in the middle of their own ending


def _start(what: Job) -> None:
    global _linter
    _linter = Linter(what)


def _lint(item: Found) -> Linted:
    assert _linter is not None
    return _linter.linted(item.path, item.named)
