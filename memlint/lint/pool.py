"""Lints many files, in worker processes where that is sooner done. The order of the reports does not depend on it."""

from __future__ import annotations

import gc
import math
import os
import time
from collections.abc import Iterator, Sequence

from memlint.lint.linter import Linter
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.report.progress import watched
from memlint.repository.discovery import FoundFile

# Files that this process checks before it starts workers. A worker that is forked has what these left behind: modules,
# rules, schemas, layers. They also tell how long the others will take.
FIRST = 64
WORTH_A_WORKER = 0.5  # seconds of work: a worker for less saves less than it costs (benchmarks/speed/linters.py)
ALONE = 0.75  # the part of the time that a process has a processor to itself where nobody else wants it
QUOTA = "/sys/fs/cgroup/cpu.max"


def lint_files(request: LintRequest, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    """Yields one report per file, lazily and in the order of `files`. `jobs`: processes at work; by default as many as
    there are processors, where there is work for them. Raises UsageError."""
    return watched(_linted(Linter(request), files, jobs), len(files))


def _linted(linter: Linter, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    wall, processor = time.perf_counter(), time.process_time()
    for item in files[:FIRST]:
        yield linter.lint_file(item.path, item.named)
    others = files[FIRST:]
    processes = jobs or _processes(len(others), time.perf_counter() - wall, time.process_time() - processor)
    if others:
        gc.freeze()  # what stays is not visited at each collection, nor copied by a worker that visits it
    if others and processes > 1:
        from memlint.lint.workers import lint_with_workers  # only where there are many files

        yield from lint_with_workers(linter, others, processes)
    else:
        for item in others:
            yield linter.lint_file(item.path, item.named)


def _processes(others: int, wall: float, processor: float) -> int:
    """How many processes pay for the other files, this one among them. `wall`, `processor`: seconds that the first ones
    took."""
    processors = _processors()
    if processor < ALONE * wall and _load() > processors:
        return 1  # this process waits for others already
    return min(processors, int(processor / FIRST * others / WORTH_A_WORKER))


def _load() -> float:
    """Processes that ran or waited for a processor, on average over the last minute; 0 where nobody counts them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _processors() -> int:
    """The number of processors that this process may use; in a container often fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota(QUOTA))))


def _quota(path: str) -> float:
    """How many processors' time a container may use (Linux, control groups 2): "200000 100000" is two, "max 100000" no
    limit."""
    try:
        with open(path) as stream:
            most, period = map(int, stream.read().split())
        return most / period
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
