"""Which settings make two runs differ, and what each of them does to the peak when it alone changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory import estimate
from memlint.report.comparison.model import ValueChange
from memlint.run import UNKNOWN, Origin, Run, get, replace

WRITTEN = ("file", "companion", "directive", "setting", "command_line")
MOST = 12  # settings that are tried alone

_Cause = tuple[str, tuple[str | int, ...]]


def changes(before: Run, after: Run) -> tuple[ValueChange, ...]:
    """The settings that differ, grouped by where they are written, the ones that move the peak most first."""
    causes: dict[_Cause, list[str]] = {}
    for name in _differing(before, after, ""):
        origin = _written(after, name) or _written(before, name)
        if origin is not None:
            causes.setdefault((origin.kind, origin.pointer or (name,)), []).append(name)
    peak = estimate(before).device_bytes
    told = [_change(before, after, names, peak) for names in list(causes.values())[:MOST]]
    return tuple(sorted(told, key=lambda change: (-abs(change.alone or 0), change.name)))


def _differing(before: Any, after: Any, prefix: str) -> Iterator[str]:
    """Dotted names of the values that differ; what holds other values is looked into."""
    for field in before._fields:
        if not prefix and field in ("origins", "path", "format", "related"):
            continue
        old, new = getattr(before, field), getattr(after, field)
        if old == new and type(old) is type(new):
            continue
        name = f"{prefix}{field}"
        if hasattr(old, "_fields") and type(old) is type(new) and name not in ("model.architecture", "hardware.gpu"):
            yield from _differing(old, new, f"{name}.")
        else:
            yield name


def _written(run: Run, name: str) -> Origin | None:
    """Where somebody wrote the value of a field, or of the field that holds it."""
    while name:
        origin = run.origins.get(name)
        if origin is not None:
            return origin if origin.kind in WRITTEN else None
        name = name.rpartition(".")[0]
    return None


def _change(before: Run, after: Run, names: list[str], peak: int | None) -> ValueChange:
    first = next((name for name in names if _written(after, name)), names[0])
    origin = _written(after, first) or _written(before, first) or Origin("unknown")
    key = ".".join(str(part) for part in origin.pointer) or first
    place = f"{origin.path}:{origin.line}" if origin.line and _written(after, first) else origin.path
    alone = _alone(before, after, names, peak)
    return ValueChange(key, _text(get(before, first)), _text(get(after, first)), place or origin.kind, alone)


def _alone(before: Run, after: Run, names: list[str], peak: int | None) -> int | None:
    if peak is None:
        return None
    try:
        new = estimate(replace(before, {name: get(after, name) for name in names})).device_bytes
    except Exception:
        return None  # half of a change need not make sense by itself
    return None if new is None else new - peak


def _text(value: Any) -> str:
    if value is UNKNOWN or value is None:
        return "unknown"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and hasattr(value, "name"):
        return str(value.name)
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) if len(value) <= 6 else f"{len(value)} values"
    return str(value)
