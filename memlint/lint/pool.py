"""Lints many files, in worker processes if there are enough files. The order of the reports does not depend on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import memlint.file_access as file_access
from memlint.lint.linter import Linter
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.report.progress import watched
from memlint.repository.discovery import FoundFile

# Below this many files starting workers costs more than they save (measured: benchmarks/speed/linters.py).
WORTH_WORKERS = 500
FILES_A_TASK = 16  # files that a worker gets at a time

_linter: Linter | None = None  # of a worker process


def lint_files(request: LintRequest, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    """Yields one report per file, lazily and in the order of `files`. Raises UsageError."""
    workers = jobs or (_idle_processors() if len(files) >= WORTH_WORKERS else 1)
    if workers <= 1 or len(files) < 2:
        return watched(_one_by_one(request, files), len(files))
    return watched(_in_parallel(request, files, workers), len(files))


def _one_by_one(request: LintRequest, files: Sequence[FoundFile]) -> Iterator[LintedFile]:
    linter = Linter(request)
    return (linter.lint_file(item.path, item.named) for item in files)


def _processors() -> int:
    """The number of processors that this process may use; in a container often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _idle_processors() -> int:
    """Those that nobody else uses, at least one. Two workers that share a processor take longer than one alone."""
    busy = int(os.getloadavg()[0]) if hasattr(os, "getloadavg") else 0
    return max(1, _processors() - busy)


def _in_parallel(request: LintRequest, files: Sequence[FoundFile], workers: int) -> Iterator[LintedFile]:
    from multiprocessing import get_context  # only where there are many files

    method = "fork" if hasattr(os, "fork") else "spawn"
    with get_context(method).Pool(workers, _start_worker, (request,)) as pool:
        for linted, recorded in pool.imap(_lint_in_worker, files, chunksize=FILES_A_TASK):
            file_access.add(recorded)
            yield linted
        pool.close()
        pool.join()  # without it the workers are killed while they shut down


def _start_worker(request: LintRequest) -> None:
    import signal  # only in workers

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started them: it ends them
    global _linter
    _linter = Linter(request)


def _lint_in_worker(item: FoundFile) -> tuple[LintedFile, file_access.Recorded]:
    """The report, and what was read for it where that is recorded."""
    assert _linter is not None
    return _linter.lint_file(item.path, item.named), file_access.take()
