"""Files to reports, in worker processes where there are enough of them; the order never depends on which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from memlint.commands.run_files import Job, Linter
from memlint.discovery import Found
from memlint.report.model import FileReport

# Below this many files starting workers costs more than they save (measured: benchmarks/speed.py).
WORTH_WORKERS = 500
CHUNK = 50

_linter: Linter | None = None


def reports(what: Job, found: Sequence[Found], jobs: int | None) -> Iterator[FileReport]:
    """A report a file, in the order of `found`."""
    workers = jobs or (os.cpu_count() or 1 if len(found) >= WORTH_WORKERS else 1)
    if workers <= 1 or len(found) < 2:
        linter = Linter(what)
        return (linter.report(item.path, item.named) for item in found)
    return _parallel(what, found, workers)


def _parallel(what: Job, found: Sequence[Found], workers: int) -> Iterator[FileReport]:
    from multiprocessing import get_context

    method = "fork" if hasattr(os, "fork") else "spawn"
    with get_context(method).Pool(workers, _start, (what,)) as pool:
        yield from pool.imap(_lint, found, chunksize=CHUNK)


def _start(what: Job) -> None:
    global _linter
    _linter = Linter(what)


def _lint(item: Found) -> FileReport:
    assert _linter is not None
    return _linter.report(item.path, item.named)
