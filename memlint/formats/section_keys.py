"""What a mapping and the sections in it give for the keys of a table: a `Given` of formats/keys.py."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int
from memlint.formats.keys import Keys
from memlint.run import Origin
from memlint.source.document import Path

_DEPTH = 3  # sections in sections: `zero_optimization.offload_optimizer.device`


class Said(NamedTuple):
    """What a file gives for one key. `counts`: the value is of the key's kind."""

    spelling: str
    value: Any
    counts: bool


_NOTHING = Said("", None, False)


class SectionKeys:
    """The keys of the table `keys` that `section` gives; `source` is whose defaults count for the others.

    Keys are asked for by any name that the table has for them; one without a row raises KeyError. Where a file has two
    spellings of a key, the newer one counts; null is not given.
    """

    __slots__ = ("_said", "keys", "section", "source")

    def __init__(self, section: Section, keys: Keys, source: str) -> None:
        self.section = section
        self.keys = keys
        self.source = source
        self._said: dict[str, Said] = {}
        for spelling, value in _keys_in(section.value):
            if spelling in keys:
                self._note(spelling, value)

    def _note(self, spelling: str, value: Any) -> None:
        row = self.keys[spelling]
        before = self._said.get(row.name)
        if before is None or row.names.index(spelling) < row.names.index(before.spelling):
            self._said[row.name] = Said(spelling, value, row.neutral(value) is not None)

    def said(self, name: str) -> Said:
        return self._said.get(self.keys[name].name, _NOTHING)

    def written(self, name: str) -> str | None:
        """The spelling under which the file gives the key, None where it does not."""
        return self.said(name).spelling or None

    def raw(self, name: str) -> Any:
        """What the file has at the key, None where it has nothing."""
        return self.said(name).value

    def default(self, name: str) -> Any:
        """The framework's value of a key that the file does not give."""
        return self.keys[name].default

    def get(self, name: str) -> Any:
        """The value that counts: the file's where it is of the key's kind, else the default."""
        said = self.said(name)
        return said.value if said.counts else self.default(name)

    def path(self, name: str) -> Path:
        """The steps from the section to the key, as the file spells it."""
        return path_of(self.written(name) or name)

    def origin(self, name: str) -> Origin:
        """The place of a value that is there, else the framework's default. What is no number is none that is there."""
        said = self.said(name)
        absent = said.value is None or (not said.counts and self.keys[name].kind == "whole")
        if absent:
            return Origin("default", detail=self.source)
        return self.section.origin(*path_of(said.spelling))

    def flag(self, name: str) -> bool:
        """A boolean: the file's or the default."""
        return bool(as_bool(self.get(name)))

    def integer(self, name: str) -> int | None:
        """The whole number that the file has at the key."""
        return as_int(self.raw(name))


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
