"""Adds a reading for each number of GPUs to a run whose launch commands differ in nothing else.

A README starts the same config on 4 GPUs in one place and on 8 in another: each is a way in which the run may go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from memlint.formats.base import Context, Launch, Parsed
from memlint.repository.launch.readings import SECTIONS, with_readings
from memlint.run import UNKNOWN, Reading, Run, differences
from memlint.source.document import Document

REASON = "commands start it on different numbers of GPUs"
_FIELD = "parallelism.world_size"


def with_number_readings(
    parsed: Parsed,
    parse: Callable[[Document, Context], Parsed],
    document: Document,
    context: Context,
    commands: tuple[Launch, ...],
) -> Parsed:
    """The same runs. One whose number of GPUs is open gets a reading for that of each of `commands`."""
    return with_readings(
        parsed,
        lambda run: run.parallelism.world_size is UNKNOWN,
        lambda run, index: _readings(run, index, parse, document, context, commands),
    )


def _readings(
    run: Run,
    index: int,
    parse: Callable[[Document, Context], Parsed],
    document: Document,
    context: Context,
    commands: tuple[Launch, ...],
) -> Iterator[Reading]:
    for command in commands:
        per_node = command.gpus_per_node or command.gpus
        runs = parse(document, context._replace(gpus=command.gpus, gpus_per_node=per_node)).runs
        if len(runs) > index:
            each = f"each of {command.gpus} GPUs" if command.gpus > 1 else "one GPU"
            label = f"on {each} as in {command.path}:{command.line}"
            yield Reading(REASON, label, label, differences(run, runs[index], SECTIONS), ((_FIELD, UNKNOWN),))
