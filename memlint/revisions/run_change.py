"""Finds the keys that make two runs differ, and how much each of them alone changes the peak."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint.memory import estimate
from memlint.report.comparison.model import ValueChange
from memlint.run import UNKNOWN, Origin, Run, get, replace

STATED_ORIGINS = ("file", "companion", "directive", "setting", "command_line")
MOST = 12  # differing keys whose own effect is estimated

_Cause = tuple[str, tuple[str | int, ...]]


def changes(before: Run, after: Run) -> tuple[ValueChange, ...]:
    """The keys that differ, largest effect on the peak first. Fields set by one key are one change."""
    causes: dict[_Cause, list[str]] = {}
    for name in _differing(before, after, ""):
        origin = _stated_origin(after, name) or _stated_origin(before, name)
        if origin is not None:
            causes.setdefault((origin.kind, origin.pointer or (name,)), []).append(name)
    peak = estimate(before).device_bytes
    measured = [_value_change(before, after, names, peak) for names in list(causes.values())[:MOST]]
    return tuple(sorted(measured, key=lambda change: (-abs(change.own_effect or 0), change.name)))


def _differing(before: Any, after: Any, prefix: str) -> Iterator[str]:
    """Dotted names of the fields that differ; nested records are compared field by field."""
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


def _stated_origin(run: Run, name: str) -> Origin | None:
    """The origin of a field, or of the record that contains it, if the user stated it; else None."""
    while name:
        origin = run.origins.get(name)
        if origin is not None:
            return origin if origin.kind in STATED_ORIGINS else None
        name = name.rpartition(".")[0]
    return None


def _value_change(before: Run, after: Run, names: list[str], peak: int | None) -> ValueChange:
    first = next((name for name in names if _stated_origin(after, name)), names[0])
    origin = _stated_origin(after, first) or _stated_origin(before, first) or Origin("unknown")
    key = ".".join(str(part) for part in origin.pointer) or first
    place = f"{origin.path}:{origin.line}" if origin.line and _stated_origin(after, first) else origin.path
    own_effect = _own_effect(before, after, names, peak)
    return ValueChange(key, _text(get(before, first)), _text(get(after, first)), place or origin.kind, own_effect)


def _own_effect(before: Run, after: Run, names: list[str], peak: int | None) -> int | None:
    if peak is None:
        return None
    try:
        new = estimate(replace(before, {name: get(after, name) for name in names})).device_bytes
    except Exception:
        return None  # one key of a change may be invalid without the others
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
