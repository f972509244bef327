"""Fields that the estimator reads as known but that a run leaves open: `--use_dora $DORA`, which nobody sets.

`UNKNOWN` is falsy, so that such a flag would silently count as off. What `Run` declares as `Maybe` is asked for where
it is read; all else is refused here, but a flag or two that nobody sets are estimated both ways (`readings.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from memlint.memory.parameters import MissingValue
from memlint.run import UNKNOWN, Reading, Run

_PARTS = Run._fields[Run._fields.index("method") : Run._fields.index("hardware")]
_SCALARS = ("bool", "int", "float", "str")  # what is left open of lists is asked where it is read
_RECORDS = ("Zero", "Fsdp")
_OTHER_MODELS = ("value_model",)
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
    for part in _PARTS:
        yield from _open_in(getattr(run, part), part)


def _open_in(record: Any, name: str) -> Iterator[tuple[str, str]]:
    for field, kind in _asked_of(type(record)):
        value = getattr(record, field)
        if kind in _RECORDS:
            yield from _open_in(value, f"{name}.{field}")
        elif value is UNKNOWN:
            yield f"{name}.{field}", kind


_ASKED: dict[type, tuple[tuple[str, str], ...]] = {}


def _asked_of(kind: type) -> tuple[tuple[str, str], ...]:
    """The fields of such records that have to be known or are records themselves, and their types by name. Cached, as
    every estimate asks."""
    if kind not in _ASKED:
        of_fields = kind.__annotations__.items()
        _ASKED[kind] = tuple(
            (field, name) for field, name in of_fields if name in (*_SCALARS, *_RECORDS) or field in _OTHER_MODELS
        )
    return _ASKED[kind]
