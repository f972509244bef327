"""Lints files in this process and in worker processes; the reports come in the order of the files.

Each process lints one task at a time: a range of neighbouring files. This process works too, because one that only
waited would use its memory for nothing.
"""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait

import memlint.file_access as file_access
from memlint.errors import UsageError
from memlint.lint.linter import Linter, Outcome, unless_error
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.repository.files.discovery import FoundFile

# FILES_A_TASK: the most files of a task. Large tasks cost little to hand over, and neighbours are read by one process.
# TASKS: each process could have at least so many tasks of the size of the next one. Tasks get smaller towards the end,
# so that no process finishes much later than the others.
FILES_A_TASK, TASKS = 16, 8
FORKS = hasattr(os, "fork")


def lint_with_workers(linter: Linter, files: Sequence[FoundFile], processes: int) -> Iterator[LintedFile]:
    """Yields one report per file. `processes`: how many work, this one included. Raises UsageError."""
    tasks = _tasks(len(files), processes)
    done: dict[int, Outcome] = {}
    own: Iterator[int] = iter(())  # what is left of this process's task
    with _workers(linter, processes - 1) as workers:
        for wanted in range(len(files)):
            while wanted not in done:
                for worker in workers:
                    worker.keep_busy(tasks, files)
                number = next(own, None)
                if number is None:
                    own = iter(next(tasks, ()))
                    number = next(own, None)
                if number is not None:
                    done[number] = linter.outcome(files[number])
                done.update(_answers(workers, waits=number is None))
            yield unless_error(done.pop(wanted))


def _tasks(files: int, processes: int) -> Iterator[range]:
    start = 0
    while start < files:
        task = range(start, start + min(FILES_A_TASK, max(1, (files - start) // (processes * TASKS))))
        yield task
        start = task.stop


class _Worker:
    """A process that lints the files sent to it. `asked`: the numbers of the files that it has not answered yet."""

    def __init__(self, request: LintRequest, inherited: Linter | None) -> None:
        context = get_context("fork") if FORKS else get_context("spawn")
        self.connection, far_end = context.Pipe()
        self.process = context.Process(target=_work, args=(far_end, self.connection, request, inherited), daemon=True)
        self.process.start()
        far_end.close()
        self.asked: deque[int] = deque()
        self._latest = 0  # files of the task that was sent last

    def keep_busy(self, tasks: Iterator[range], files: Sequence[FoundFile]) -> None:
        """Sends tasks until more files are pending than one task has, so that the worker never idles while this process
        lints a file of its own."""
        while len(self.asked) <= self._latest and (task := next(tasks, None)):
            self.asked.extend(task)
            self._latest = len(task)
            self.connection.send(files[task.start : task.stop])

    def answer(self) -> tuple[int, Outcome]:
        """The next file's number and outcome. Raises UsageError if the worker is gone."""
        try:
            found, recorded = self.connection.recv()
        except (EOFError, ConnectionError):
            raise UsageError("a worker was killed, perhaps for its memory; --jobs 1 needs no worker") from None
        file_access.add(recorded)
        return self.asked.popleft(), found


def _answers(workers: Iterable[_Worker], waits: bool) -> Iterator[tuple[int, Outcome]]:
    """One answer of each worker that has one ready. `waits`: block until there is at least one."""
    asked = [worker for worker in workers if worker.asked]
    ready = wait([worker.connection for worker in asked], None if waits else 0)
    for worker in asked:
        if worker.connection in ready:
            yield worker.answer()


@contextmanager
def _workers(linter: Linter, number: int) -> Iterator[Sequence[_Worker]]:
    """`number` worker processes, which end with the `with` block. Forked ones inherit what `linter` has read."""
    with _sigint_blocked():
        workers = [_Worker(linter.request, linter if FORKS else None) for _ in range(number)]
    try:
        yield workers
        for worker in workers:
            worker.connection.close()
    except BaseException:
        for worker in workers:
            worker.process.terminate()
        raise
    finally:
        for worker in workers:
            worker.process.join()


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Blocks SIGINT (Ctrl-C) until the block ends. Workers forked in it inherit that: their parent ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(connection: Connection, asker: Connection, request: LintRequest, inherited: Linter | None) -> None:
    """The main function of a worker: answers each file with (outcome, record of what was read), until the connection
    closes.

    `asker`: the parent's end of the connection; closed here, because a copy that stays open would hide that the parent
    is gone. `inherited`: the parent's linter, None in a process that was not forked.
    """
    asker.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # for processes that are not forked
    file_access.take()  # discards what was recorded before the fork
    linter = inherited or Linter(request)
    with suppress(EOFError, ConnectionError):
        while True:
            for item in connection.recv():
                connection.send((linter.outcome(item), file_access.take()))
