"""Files to reports, in worker processes where there are enough of them; the order never depends on which."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from memlint.lint.linter import Linter
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.report.progress import watched
from memlint.repository.discovery import FoundFile

# Below this many files starting workers costs more than they save (measured: benchmarks/speed/repository.py).
WORTH_WORKERS = 500
FILES_A_TASK = 16  # what a worker gets at a time

_linter: Linter | None = None  # of a worker process


def lint_files(request: LintRequest, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    """A report a file, in the order of `files`; one after the other as they are asked for. Raises UsageError."""
    workers = jobs or (_processors() if len(files) >= WORTH_WORKERS else 1)
    if workers <= 1 or len(files) < 2:
        return watched(_one_by_one(request, files), len(files))
    return watched(_in_parallel(request, files, workers), len(files))


def _one_by_one(request: LintRequest, files: Sequence[FoundFile]) -> Iterator[LintedFile]:
    linter = Linter(request)
    return (linter.lint_file(item.path, item.named) for item in files)


def _processors() -> int:
    """The processors that this process may use: a container is often given fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_parallel(request: LintRequest, files: Sequence[FoundFile], workers: int) -> Iterator[LintedFile]:
    from multiprocessing import get_context  # only where there are many files

    method = "fork" if hasattr(os, "fork") else "spawn"
    with get_context(method).Pool(workers, _start_worker, (request,)) as pool:
        yield from pool.imap(_lint_in_worker, files, chunksize=FILES_A_TASK)
        pool.close()
        pool.join()  # else they are ended in the middle of their own ending


def _start_worker(request: LintRequest) -> None:
    global _linter
    _linter = Linter(request)


def _lint_in_worker(item: FoundFile) -> LintedFile:
    assert _linter is not None
    return _linter.lint_file(item.path, item.named)
