"""Adds a reading for each possible ZeRO stage to a run whose DeepSpeed file is missing.

The stage is taken from the file's name if it has one (`ds_z3_config.json`, `zero2.json`), else it is 2 or 3. Each stage
is read without and with offloading; only with it if the file's name contains `offload`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator
from functools import partial

from memlint.formats.base import Context, MissingFile, Parsed
from memlint.repository.launch.readings import SECTIONS, with_readings
from memlint.run import UNKNOWN, Reading, Run, differences
from memlint.source import load
from memlint.source.document import Document

REASON = "DeepSpeed file not known"
_FIELD = "parallelism.zero.stage"
_STAGE = r"(?:zero|stage|(?<![a-z])z)[-_]?([0-3])(?!\d)"
_FILES = (".json", ".yaml", ".yml")
_CPU = {"device": "cpu"}


def with_stage_readings(
    parsed: Parsed, parse: Callable[[Document, Context], Parsed], document: Document, context: Context
) -> Parsed:
    """The same runs. One whose DeepSpeed file is missing gets a reading for each stage and offloading it may have."""
    return with_readings(parsed, _lacks_its_stage, lambda run, index: _readings(run, index, parse, document, context))


def _lacks_its_stage(run: Run) -> bool:
    return run.parallelism.engine == "deepspeed" and run.parallelism.zero.stage is UNKNOWN


def _readings(
    run: Run, index: int, parse: Callable[[Document, Context], Parsed], document: Document, context: Context
) -> Iterator[Reading]:
    missing: list[str] = []

    def read(supposed: Document | None, reference: str, path: str) -> Document | MissingFile:
        found = context.read(reference, path)
        if not isinstance(found, MissingFile) or not reference.lower().endswith(_FILES):
            return found
        missing.append(reference)
        return found if supposed is None else supposed

    parse(document, context._replace(read=partial(read, None)))
    for stage, offloads in _ways(missing):
        supposed = load(_text(stage, offloads).encode(), "deepspeed.json", "json")[0]
        runs = parse(document, context._replace(read=partial(read, supposed))).runs
        if len(runs) > index and runs[index].parallelism.zero.stage == stage:
            label = f"with ZeRO-{stage}{', offloaded' if offloads else ''}"
            changes = differences(run, runs[index], SECTIONS)
            settled = f"give it the DeepSpeed file that it names, {label}"
            yield Reading(REASON, label, label, changes, ((_FIELD, UNKNOWN),), settled=settled)


def _ways(missing: list[str]) -> Iterator[tuple[int, bool]]:
    """The stages that the file may have, with and without offloading."""
    name = posixpath.basename(missing[0]).lower() if missing else ""
    found = re.search(_STAGE, name)
    stages = (int(found[1]),) if found else (2, 3)
    for stage in stages:
        yield from ((stage, offloads) for offloads in (False, True) if offloads or "offload" not in name)


def _text(stage: int, offloads: bool) -> str:
    zero: dict[str, object] = {"stage": stage}
    if offloads and stage >= 1:
        zero["offload_optimizer"] = _CPU
    if offloads and stage == 3:
        zero["offload_param"] = _CPU
    sizes = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    values = {"zero_optimization": zero, "bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
    return json.dumps({**values, **dict.fromkeys(sizes, "auto")})
