"""Fields that the estimator reads as known but that a run leaves open: `--use_dora $DORA`, which nobody sets.

`UNKNOWN` is falsy, so that such a flag would silently count as off. What `Run` declares as `Maybe` is asked for where
it is read; all else is refused here, but a flag or two that nobody sets are estimated both ways (`readings.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from operator import attrgetter
from typing import Any

from memlint.memory.parameters import MissingValue
from memlint.run import UNKNOWN, Reading, Run

_PARTS = Run._fields[Run._fields.index("method") : Run._fields.index("hardware")]
_SCALARS = ("bool", "int", "float", "str")  # what is left open of lists is asked where it is read
_OTHER_MODELS = ("value_model",)
_MOST_FLAGS = 2  # four readings


def refuse(run: Run) -> None:
    """Raises `MissingValue` for the first such field of a run whose model is known."""
    if run.model.architecture is UNKNOWN or not _leaves_any_open(run):
        return
    for field, _ in _open_fields(run):
        raise MissingValue(field, "the value is filled in elsewhere")


def _leaves_any_open(run: Run) -> bool:
    """Whether `_open_fields` yields any: a fast answer, as every estimate asks."""
    records = (*(getattr(run, part) for part in _PARTS), run.parallelism.zero, run.parallelism.fsdp)
    return any(UNKNOWN in pick(record) for record in records if (pick := _picks_asked(record)) is not None)


_PICKS: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}


def _picks_asked(record: Any) -> Callable[[Any], tuple[Any, ...]] | None:
    """What picks the fields that have to be known from records of this type; None where it has none."""
    kind = type(record)
    if kind not in _PICKS:
        names = [field for field, type_name in kind.__annotations__.items() if _has_to_be_known(field, type_name)]
        _PICKS[kind] = attrgetter(*names, names[0]) if names else None  # of one name it would give no tuple
    return _PICKS[kind]


def _has_to_be_known(field: str, kind: str) -> bool:
    return kind in _SCALARS or field in _OTHER_MODELS


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
    for field, value in zip(getattr(record, "_fields", ()), record):
        if value is UNKNOWN:
            kind = type(record).__annotations__[field]
            if _has_to_be_known(field, kind):
                yield f"{name}.{field}", kind
        elif hasattr(value, "_fields") and field not in _OTHER_MODELS:
            yield from _open_in(value, f"{name}.{field}")
