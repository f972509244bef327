"""Lints many files, in worker processes where that is faster. The reports come in the same order either way."""

from __future__ import annotations

import gc
import math
import os
import sys
import time
from collections.abc import Iterator, Sequence

from memlint.formats.schema.validate import load_library
from memlint.lint.linter import Linter, unless_error
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.repository.files.discovery import FoundFile

# Files, from all over the tree, that this process checks before it starts workers. Forked workers inherit what these
# loaded: modules, rules, schemas, layers. The time that they took also predicts the time of the others.
FIRST = 32
WORTH_A_WORKER = 0.5  # seconds of work: a worker for less saves less than it costs (benchmarks/speed/linters.py)
UNCONTENDED = 0.75  # processor time / wall time of a process that does not compete for a processor
QUOTA = "/sys/fs/cgroup/cpu.max"


def lint_files(request: LintRequest, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    """Yields one report per file, lazily and in the order of `files`. Raises UsageError.

    `jobs`: the number of processes, this one included; None: up to one per processor, as far as the work pays for it.
    """
    linted = _linted(Linter(request), files, jobs)
    if not sys.stderr.isatty():
        return linted
    from memlint.report.progress import watched  # for terminals

    return watched(linted, len(files))


def _linted(linter: Linter, files: Sequence[FoundFile], jobs: int | None) -> Iterator[LintedFile]:
    if len(files) <= FIRST or (jobs or _processors()) == 1:
        for number, item in enumerate(files):
            if number == FIRST:
                gc.freeze()  # collections skip what is loaded by now
                load_library()
            yield linter.lint_file(item.path, item.named)
        return
    load_library()
    wall, processor = time.perf_counter(), time.process_time()
    first = {number: linter.outcome(files[number]) for number in _spread(len(files))}
    others = [item for number, item in enumerate(files) if number not in first]
    processes = jobs or _processes(len(others), time.perf_counter() - wall, time.process_time() - processor)
    gc.freeze()  # as above; forked workers do not copy its pages either
    if processes > 1:
        from memlint.lint.many.workers import lint_with_workers  # only where there are many files

        rest = lint_with_workers(linter, others, processes)
    else:
        rest = map(unless_error, map(linter.outcome, others))
    for number in range(len(files)):
        yield unless_error(first.pop(number)) if number in first else next(rest)
    yield from rest  # no more of them: the workers end


def _spread(files: int) -> list[int]:
    """The numbers of FIRST of `files` files, at equal distances: a folder often holds configs of one framework."""
    return [number * files // FIRST for number in range(FIRST)]


def _processes(others: int, wall: float, processor: float) -> int:
    """How many processes are worthwhile for `others` files, this one included. `wall`, `processor`: seconds of wall
    time and of processor time that the first files took."""
    processors = _processors()
    if processor < UNCONTENDED * wall and _load() > processors:
        return 1  # the machine is busy: this process already waits for a processor
    return min(processors, int(processor / FIRST * others / WORTH_A_WORKER))


def _load() -> float:
    """The load average of the last minute (processes that run or wait for a processor); 0 where there is none."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _processors() -> int:
    """The number of processors that this process may use. A container often has fewer than the machine."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, _quota(QUOTA))))


def _quota(path: str) -> float:
    """The number of processors that a container's quota allows (Linux, cgroup v2 `cpu.max`, in microseconds).

    "200000 100000" (quota, period) is 2.0; "max 100000", or no such file, is infinity.
    """
    try:
        with open(path) as stream:
            most, period = map(int, stream.read().split())
        return most / period
    except (OSError, ValueError, ZeroDivisionError):
        return math.inf
