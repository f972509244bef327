"""Replaces the fields of a run that do not affect its memory, so that runs that only differ in them share an
estimate."""

from __future__ import annotations

from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.unknown.releases import canonical_stack
from memlint.run import Planning, Run

# Fields that nothing in this folder reads; tests/memory/test_canonical_run.py holds them against its source.
UNREAD: Mapping[str, tuple[str, ...]] = {
    "method": ("use_rslora", "reward_model"),
    "batch": ("auto_find",),
    "sequence": ("packing", "neat_packing", "video_max_length", "shift_attention", "rope_scaling"),
    "loss": ("fallback_reason",),
    "optimizer": ("max_grad_norm", "learning_rate"),
    "parallelism": ("find_unused_parameters",),
}
_PLANNING = Planning()


class _Section(NamedTuple):
    """Fields of one part of a run that are not read, and their defaults."""

    name: str
    read: itemgetter[Any]
    values: Any
    defaults: Mapping[str, Any]


def _section(name: str, fields: tuple[str, ...]) -> _Section:
    default = Run._field_defaults[name]
    read = itemgetter(*map(default._fields.index, fields))
    return _Section(name, read, read(default), {field: getattr(default, field) for field in fields})


_SECTIONS = tuple(_section(name, fields) for name, fields in UNREAD.items())


def canonical(run: Run) -> Run:
    """The run with defaults for all values that do not affect its memory, and with the newest of releases that are
    equal in memory."""
    changes: dict[str, Any] = {"stack": canonical_stack(run), "planning": _PLANNING}
    for section in _SECTIONS:
        part = getattr(run, section.name)
        if section.read(part) != section.values:
            changes[section.name] = part._replace(**section.defaults)
    return run._replace(**changes)
