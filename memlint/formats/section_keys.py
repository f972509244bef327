"""The values that a mapping and the sections in it give to the keys of a table: `KeyValues` of formats/keys.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int, as_number
from memlint.formats.keys import Keys
from memlint.run import Origin
from memlint.source.document import Path

_DEPTH = 5  # of sections within sections: `actor_rollout_ref.actor.optim.override_optimizer_config.x`


class SectionValue(NamedTuple):
    """One key's value in a file. `spelling`: the name in the file. `is_valid`: the value is of the key's kind."""

    spelling: str
    value: Any
    is_valid: bool


_NOTHING = SectionValue("", None, False)


class SectionKeys:
    """The values of the keys in the table `keys`: those in `section`, else the defaults of `source`.

    A key is looked up by any of its spellings; one without a row raises KeyError. Where a file has two spellings of a
    key, the newer one is in force; null counts as not given.
    """

    __slots__ = ("_values", "keys", "section", "source")

    def __init__(self, section: Section, keys: Keys, source: str) -> None:
        self.section = section
        self.keys = keys
        self.source = source
        self._values: dict[str, SectionValue] = {}
        for spelling, value in _keys_in(section.value):
            if spelling in keys:
                self._add(spelling, value)

    def _add(self, spelling: str, value: Any) -> None:
        row = self.keys[spelling]
        before = self._values.get(row.name)
        if before is None or row.names.index(spelling) < row.names.index(before.spelling):
            self._values[row.name] = SectionValue(spelling, value, row.neutral(value) is not None)

    def find(self, name: str) -> SectionValue:
        """What the file has for the key; an empty value where it has nothing."""
        return self._values.get(self.keys[name].name, _NOTHING)

    def written(self, name: str) -> str | None:
        """The spelling under which the file gives the key, None where it does not."""
        return self.find(name).spelling or None

    def raw(self, name: str) -> Any:
        """What the file has at the key, None where it has nothing."""
        return self.find(name).value

    def default(self, name: str) -> Any:
        """The framework's value of a key that the file does not give."""
        return self.keys[name].default

    def get(self, name: str) -> Any:
        """The value in force: the file's where it is of the key's kind, else the default."""
        found = self.find(name)
        return found.value if found.is_valid else self.default(name)

    def path(self, name: str) -> Path:
        """The steps from the section to the key, as the file spells it."""
        return path_of(self.written(name) or name)

    def origin(self, name: str) -> Origin:
        """The place of the file's value, else the framework's default; what is no number counts as not given."""
        found = self.find(name)
        absent = found.value is None or (not found.is_valid and self.keys[name].kind == "whole")
        if absent:
            return Origin("default", detail=self.source)
        return self.section.origin(*self.path(name))

    def flag(self, name: str) -> bool:
        """A boolean: the file's or the default."""
        return bool(as_bool(self.get(name)))

    def integer(self, name: str) -> int | None:
        """The whole number that the file has at the key."""
        return as_int(self.raw(name))


class CommandKeys(SectionKeys):
    """The values of a command's arguments, some of which nobody can know."""

    __slots__ = ()

    def open_because(self, name: str) -> str | None:
        """Why the command's value of the key is not known; None where that is not said."""
        start = self.section.document.start
        return None if start is None else start.values.unknown.get(self.path(name))

    def origin(self, name: str) -> Origin:
        """Where a value comes from, or why nobody can know it."""
        reason = self.open_because(name)
        return super().origin(name) if reason is None else Origin("unknown", detail=reason)

    def text(self, name: str) -> str:
        """Text that is known; "" where there is none."""
        value = self.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> float | None:
        """A number that is known; None where there is none."""
        return as_number(self.get(name))


def path_of(name: str) -> tuple[str, ...]:
    """The steps of a dotted key: ("zero_optimization", "stage")."""
    return tuple(name.split("."))


def _keys_in(section: Mapping[str, Any], above: str = "", depth: int = _DEPTH) -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a mapping and of the sections in it."""
    for key, value in section.items():
        if value is not None and "." not in str(key):
            yield f"{above}{key}", value
            if depth > 1 and isinstance(value, dict):
                yield from _keys_in(value, f"{above}{key}.", depth - 1)
