"""Runs all work of the server on one thread, the most urgent job first.

The linter is not thread-safe, and Python would not run several threads in parallel. A job that nobody waits for any
more is not started. A running job can check `Schedule.superseded` and end early.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any, TypeVar

T = TypeVar("T")

# How urgent a job is: an answer that somebody waits for, the edited document, documents that depend on it, all others.
ASKED, EDITED, DEPENDENT, OTHERS = range(4)

Job = tuple[int, int, "asyncio.Future[Any]", Callable[[], Any]]


class Superseded(BaseException):
    """Ends a job early that an edit made useless. Not an `Exception`, so that no stage treats it as a failure."""


class Schedule:
    """Runs jobs one by one."""

    def __init__(self) -> None:
        self._jobs: list[Job] = []
        self._numbers = count()
        self._executor = ThreadPoolExecutor(1, "memlint")
        self._is_running = False
        self.superseded = False  # whether the running job should end early

    async def run(self, urgency: int, work: Callable[[], T]) -> T:
        """Queues `work` and returns its result. Raises what it raises, and Superseded."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        heapq.heappush(self._jobs, (urgency, next(self._numbers), future, work))
        self._next(loop)
        return await future

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._is_running:
            return
        while self._jobs:
            _, _, future, work = heapq.heappop(self._jobs)
            if not future.done():
                self._is_running, self.superseded = True, False
                running = loop.run_in_executor(self._executor, partial(_outcome, work))
                running.add_done_callback(partial(self._done, loop, future))
                return

    def _done(
        self,
        loop: asyncio.AbstractEventLoop,
        future: asyncio.Future[Any],
        running: asyncio.Future[tuple[Any, BaseException | None]],
    ) -> None:
        self._is_running = False
        result, error = running.result()
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)
        self._next(loop)


def _outcome(work: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return work(), None
    except BaseException as error:  # whoever waits for the job gets it
        return None, error
