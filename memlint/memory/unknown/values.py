"""Fields that the estimator reads as known but that a run leaves open: `--use_dora $DORA`, which nobody sets.

`UNKNOWN` is falsy, so that such a flag would silently count as off. What `Run` declares as `Maybe` is asked for where
it is read; all else is refused here, but a flag or two that nobody sets are estimated both ways (`readings.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from operator import attrgetter
from typing import Any

import memlint.run as schema
from memlint.memory.state.parameters import MissingValue
from memlint.run import UNKNOWN, Reading, Run

_PARTS = Run._fields[Run._fields.index("method") : Run._fields.index("hardware")]
_SCALARS = ("bool", "int", "float", "str")  # what is left open of lists is asked where it is read
_RECORDS = ("Zero", "Fsdp")
_NOT_SCALAR = ("value_model", "rank_pattern", "layers_to_transform", "exclude_modules")
_MOST_FLAGS = 2  # four readings


def refuse(run: Run) -> None:
    """Raises `MissingValue` for the first such field of a run whose model is known."""
    if run.model.architecture is UNKNOWN:
        return
    for field, _ in _open_fields(run):
        raise MissingValue(field, "the value is filled in elsewhere")


def readings(run: Run) -> tuple[Reading, ...]:
    """What the flags that a run leaves open may be; nothing where another field is open, or more flags than a few."""
    found = tuple(_open_fields(run))
    if not 0 < len(found) <= _MOST_FLAGS or any(kind != "bool" for _, kind in found):
        return ()
    names = [field for field, _ in found]
    return tuple(_reading(run, tuple(zip(names, values))) for values in product((True, False), repeat=len(names)))


def both_ways(run: Run, field: str) -> tuple[dict[str, bool], ...]:
    """The changes that set a flag which the run leaves open, off and on; nothing for another field."""
    if (field, "bool") not in _open_fields(run):
        return ()
    return {field: False}, {field: True}


def _reading(run: Run, changes: tuple[tuple[str, bool], ...]) -> Reading:
    first = changes[0][0]
    origin = run.origins.get(first)
    reason = (origin and origin.detail) or "the value is filled in elsewhere"
    label = " and ".join(f"with `{field}` {'on' if value else 'off'}" for field, value in changes)
    return Reading(reason, label, "", changes, tuple((field, UNKNOWN) for field, _ in changes))


def _open_fields(run: Run) -> Iterator[tuple[str, str]]:
    """The fields without a value that no annotation lets be unknown, and their types."""
    asked, values_of = _asked()
    values = values_of(run)
    if UNKNOWN not in values:  # as in nearly all runs, which many estimates ask
        return iter(())
    return (field for field, value in zip(asked, values) if value is UNKNOWN)


@cache
def _asked() -> tuple[list[tuple[str, str]], attrgetter[Any]]:
    """The fields of a run that have to be known, with their types by name, and what reads all of their values."""
    found = [one for part in _PARTS for one in _asked_in(Run.__annotations__[part], part)]
    return found, attrgetter(*(field for field, _ in found))


def _asked_in(record: str, name: str) -> Iterator[tuple[str, str]]:
    for field, kind in getattr(schema, record).__annotations__.items():
        if kind in _RECORDS:
            yield from _asked_in(kind, f"{name}.{field}")
        elif kind in _SCALARS or field in _NOT_SCALAR:
            yield f"{name}.{field}", kind
