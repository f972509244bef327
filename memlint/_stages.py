"""Work in stages that several files can go through side by side.

One file after the other changes the code that runs with every stage, and a processor's caches hold one stage's code at
a time: sixteen files that are all read, then all parsed, then all estimated take a sixth less time than one by one
(`benchmarks/speed.py`, 2,000 files). A stage ends at a `yield`; what it yields is nothing.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

Result = TypeVar("Result")
Stages = Generator[None, None, Result]


def finished(stages: Stages[Result]) -> Result:
    """What comes out at the end, with nothing else beside it. Raises what a stage raises."""
    while True:
        try:
            next(stages)
        except StopIteration as end:
            result: Result = end.value
            return result


def abreast(rows: Sequence[Stages[Result]]) -> list[Result]:
    """What comes out of each, in the order of `rows`. Raises what the first stage that fails raises."""
    results: dict[int, Result] = {}
    waiting = list(enumerate(rows))
    while waiting:
        going = []
        for number, stages in waiting:
            try:
                next(stages)
            except StopIteration as end:
                results[number] = end.value
            else:
                going.append((number, stages))
        waiting = going
    return [results[number] for number in range(len(rows))]
