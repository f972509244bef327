"""What a change costs: how much longer a training step takes, and the risk for the result.

A cost belongs to two runs, before and after, whoever proposes the change: a move of the planner, several together, or a
rule's fix. What can be counted is counted (fixes/step_time.py); the rest are rows of costs.json with their sources.
docs/costs.md prints both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.fixes.step_time import (
    ParameterCounts,
    checkpoints_in_host_memory,
    paged_states,
    reference_from_host,
    seconds_per_sequence,
    states_away,
    table,
    weights_away,
)
from memlint.memory.state.optimizers import is_layerwise
from memlint.memory.state.parameters import MissingValue
from memlint.memory.values import Estimate, TensorEstimate
from memlint.run import Run, Unknown, get

QUALITIES = ("none", "low", "medium", "high")


class Cost(NamedTuple):
    """`speed`: factor on the time of a step for the same number of tokens (1.3: 30 % slower). `quality`: risk for the
    result of training, one of QUALITIES."""

    speed: float = 1.0
    quality: str = "none"


def model_of(estimate: Estimate | TensorEstimate) -> ParameterCounts:
    """The parameters that a run's estimate has counted; 0 where they are not known."""
    return ParameterCounts(estimate.parameters or 0, estimate.trainable_parameters or 0)


def between(
    before: Run, after: Run, models: tuple[ParameterCounts, ParameterCounts], fields: Iterable[str] | None = None
) -> Cost:
    """The cost of the change from `before` to `after`; `models`: their parameters. `fields`: all that differ."""
    rows = tuple(_rows(before, after, fields))
    speed = _counted(before, after, models)
    for row, backwards in rows:
        factor = _factor(row, before, after, models)
        speed *= 1 / factor if backwards else factor
    risks = [row["quality"] for row, backwards in rows if not backwards]
    return Cost(round(speed, 3), max((*risks, *_graded(before, after)), key=QUALITIES.index))


def _counted(before: Run, after: Run, models: tuple[ParameterCounts, ParameterCounts]) -> float:
    """The factor on the time for each token of the global batch."""
    old, new = (seconds_per_sequence(run, model) for run, model in zip((before, after), models))
    if not old or not new:
        return 1.0
    old_length, new_length = before.sequence.length, after.sequence.length
    assert isinstance(old_length, int) and isinstance(new_length, int)  # else there are no seconds
    return (new / new_length) / (old / old_length)


@lru_cache(maxsize=1)
def _by_field() -> Mapping[str, list[Mapping[str, Any]]]:
    """The rows of the table by the field that they are about."""
    known = table()
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in (*known["kernels"], *known["qualities"]):
        found.setdefault(row["field"], []).append(row)
    return found


def _rows(before: Run, after: Run, fields: Iterable[str] | None) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """The rows of the table that the change is about, and whether it goes their way back."""
    rows = _by_field()
    for field in rows if fields is None else fields:
        if field not in rows:
            continue
        old, new = get(before, field), get(after, field)
        if old == new or isinstance(old, Unknown) or isinstance(new, Unknown) or _is_no_cost(field, before, after):
            continue
        for row in rows[field]:
            if _allows(row["from"], old) and _allows(row["to"], new):
                yield row, False
            elif row["from"] and row["to"] and _allows(row["from"], new) and _allows(row["to"], old):
                yield row, True


_HALF_WITHOUT_MASTERS = ("precision.trainable_dtype", "model.weights_dtype")


def _is_no_cost(field: str, before: Run, after: Run) -> bool:
    """Half-precision weights beside fp32 masters lose no update, what adapters train in has a field of its own, and
    another engine brings its own switches."""
    if field in _HALF_WITHOUT_MASTERS and after.precision.master_weights is True:
        return True
    if field == "precision.trainable_dtype" and before.method.kind == after.method.kind == "lora":
        return True
    another = before.parallelism.engine != after.parallelism.engine
    return another and field.startswith("parallelism.")


def _allows(values: list[Any] | None, value: Any) -> bool:
    return values is None or value in values


_SECONDS: Mapping[str, Callable[[Run, ParameterCounts], float]] = {
    "paged_states": paged_states,
    "checkpoints_in_host_memory": checkpoints_in_host_memory,
    "states_away": states_away,
    "weights_away": weights_away,
    "reference_from_host": reference_from_host,
}
_EACH_MICRO_BATCH = ("checkpoints_in_host_memory", "reference_from_host")


def _factor(row: Mapping[str, Any], before: Run, after: Run, models: tuple[ParameterCounts, ParameterCounts]) -> float:
    speed = row.get("speed", 1.0)
    if not isinstance(speed, str):
        return float(speed)
    steps, size = after.batch.gradient_accumulation_steps, after.batch.micro_batch_size
    whole = seconds_per_sequence(after, models[1])
    if not whole or not isinstance(steps, int) or not isinstance(size, int):
        return 1.0
    times = steps if speed in _EACH_MICRO_BATCH else 1
    world = after.parallelism.data_parallel_size
    return 1 + times * _SECONDS[speed](after, models[1]) / (
        whole * size * steps * (world if isinstance(world, int) else 1)
    )


def _graded(before: Run, after: Run) -> Iterator[str]:
    """Risks that grow with the change: shorter sequences, fewer pixels, another global batch, a loss over fewer
    samples."""
    yield "none"
    sizes = before.batch.micro_batch_size, after.batch.micro_batch_size
    if before.method.compares_samples and isinstance(sizes[0], int) and isinstance(sizes[1], int):
        yield "none" if sizes[1] >= sizes[0] else "medium" if 2 * sizes[1] >= sizes[0] else "high"
    for field in ("sequence.length", "sequence.max_prompt_length", "sequence.max_new_tokens"):
        old, new = get(before, field), get(after, field)
        if isinstance(old, int) and isinstance(new, int) and new < old:
            yield "medium" if 2 * new >= old else "high"
    for field in ("sequence.image_max_pixels", "sequence.video_max_pixels"):
        old, new = get(before, field), get(after, field)
        if isinstance(old, int) and isinstance(new, int) and new < old:
            yield "medium" if new >= ENOUGH_PIXELS_TO_READ else "high"
    old, new = global_batch(before), global_batch(after)
    by_tokens = (
        before.batch.max_tokens and after.batch.max_tokens
    )  # micro-batches of as many sequences as there is room
    if old and new and old != new and not by_tokens:
        yield "low" if max(old, new) <= 2 * min(old, new) else "medium"


ENOUGH_PIXELS_TO_READ = 262_144  # 512 x 512: below, text in a picture is lost first


def _accumulates(run: Run) -> bool:
    try:
        return not is_layerwise(run)
    except MissingValue:  # of an optimizer that nothing is known of
        return True


def global_batch(run: Run) -> int:
    """Sequences of one optimizer step over all GPUs; 0 where it is not known. An optimizer that steps in each backward
    accumulates nothing."""
    size, steps = run.batch.micro_batch_size, run.batch.gradient_accumulation_steps if _accumulates(run) else 1
    world = run.parallelism.data_parallel_size
    if isinstance(size, int) and isinstance(steps, int):
        return size * steps * (world if isinstance(world, int) else 1)
    return 0
