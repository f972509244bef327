"""One job at a time, the most urgent first; what nobody waits for is not started."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from memlint.lsp.schedule import ASKED, EDITED, OTHERS, Schedule, Superseded


def test_the_most_urgent_job_is_next_and_equals_keep_their_order() -> None:
    done: list[str] = []
    gate = threading.Event()

    async def scenario() -> None:
        schedule = Schedule()
        waiting = [asyncio.ensure_future(schedule.run(OTHERS, gate.wait))]
        await asyncio.sleep(0)
        for urgency, name in ((OTHERS, "c"), (EDITED, "b1"), (EDITED, "b2"), (ASKED, "a")):
            waiting.append(asyncio.ensure_future(schedule.run(urgency, partial(done.append, name))))
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*waiting)

    asyncio.run(scenario())

    assert done == ["a", "b1", "b2", "c"]


def test_a_cancelled_job_is_not_started() -> None:
    done: list[str] = []
    gate = threading.Event()

    async def scenario() -> None:
        schedule = Schedule()
        first = asyncio.ensure_future(schedule.run(EDITED, gate.wait))
        dropped = asyncio.ensure_future(schedule.run(EDITED, partial(done.append, "old")))
        kept = asyncio.ensure_future(schedule.run(EDITED, partial(done.append, "new")))
        await asyncio.sleep(0)
        dropped.cancel()
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(first, kept)

    asyncio.run(scenario())

    assert done == ["new"]


@pytest.mark.parametrize("error", [ValueError("broken"), Superseded(), RecursionError()])
def test_a_job_that_fails_fails_alone(error: BaseException) -> None:
    def fail() -> None:
        raise error

    async def scenario() -> str:
        schedule = Schedule()
        with pytest.raises(type(error)):
            await schedule.run(EDITED, fail)
        return await schedule.run(EDITED, lambda: "next")

    assert asyncio.run(scenario()) == "next"


def test_a_job_hears_that_it_is_superseded_and_the_next_one_does_not() -> None:
    async def scenario() -> list[bool]:
        schedule = Schedule()
        started, gate = threading.Event(), threading.Event()

        def slow() -> bool:
            started.set()
            gate.wait()
            return schedule.superseded

        job = asyncio.ensure_future(schedule.run(ASKED, slow))
        await asyncio.get_running_loop().run_in_executor(None, started.wait)
        schedule.superseded = True
        gate.set()
        return [await job, await schedule.run(ASKED, lambda: schedule.superseded)]

    assert asyncio.run(scenario()) == [True, False]
