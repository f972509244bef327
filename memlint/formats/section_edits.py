"""Edits that give new values to dotted keys of a mapping with sections."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Edit
from memlint.formats.base import Parsed
from memlint.formats.fields import value_at
from memlint.formats.keys import FieldChange, Keys
from memlint.formats.section_keys import path_of
from memlint.run import Run
from memlint.source.document import Path


class NewValues(NamedTuple):
    """Dotted keys with their new values, for the mapping `config`, which stands at `place`."""

    config: Mapping[str, Any]
    place: tuple[str, Path]
    values: Mapping[str, Any]


def new_values(
    keys: Keys, parsed: Parsed, run: Run, changes: Mapping[str, Any], follow: Collection[str]
) -> NewValues | None:
    """What a format has to say in its file for `changes`, but for those that follow from others; None: it cannot."""
    config, place = parsed.raw.get("config"), parsed.raw_places.get("config")
    if not isinstance(config, dict) or place is None:
        return None
    wanted = {field: value for field, value in changes.items() if field not in follow}
    found = changed_keys(keys, config, run, wanted)
    return NewValues(config, place, found) if found else None


def changed_keys(keys: Keys, section: Mapping[str, Any], run: Run, changes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Every dotted key that has to change for `changes`, with its new value; None where one has no key."""
    found: dict[str, Any] = {}
    for field, value in changes.items():
        new_values = keys.write(FieldChange(field, value, changes, section, run))
        if new_values is None:
            return None
        found.update(new_values)
    return found


def edits_of(section: Mapping[str, Any], place: tuple[str, Path], new_values: Mapping[str, Any]) -> tuple[Edit, ...]:
    """Dotted keys as edits of `section`, which stands at `place`; sections that are missing are added whole."""
    path, pointer = place
    merged: dict[tuple[str, ...], Any] = {}
    for name, value in new_values.items():
        keys = path_of(name)
        depth = _depth_to_set(section, keys)
        merged[keys[:depth]] = _nested(merged.get(keys[:depth]), keys[depth:], value)
    return tuple(Edit(path, pointer + keys, "set", value) for keys, value in merged.items())


def _depth_to_set(section: Mapping[str, Any], keys: tuple[str, ...]) -> int:
    """How many steps of `keys` lead to what is set: all of them where the section that holds the key is there."""
    depth = len(keys)
    while depth > 1 and not isinstance(value_at(section, keys[: depth - 1]), dict):
        depth -= 1
    return depth


def _nested(inner: Any, keys: tuple[str, ...], value: Any) -> Any:
    """`inner` with `value` at `keys`; `value` itself where there are no more keys."""
    if not keys:
        return value
    base = dict(inner) if isinstance(inner, dict) else {}
    return {**base, keys[0]: _nested(base.get(keys[0]), keys[1:], value)}
