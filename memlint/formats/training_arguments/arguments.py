"""What a file says about TrainingArguments, with the defaults for the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int, as_number
from memlint.run import Origin
from memlint.source.document import NOT_READ

Version = tuple[int, ...]


class Arguments(NamedTuple):
    """What a section says about TrainingArguments, and the defaults for the rest. Made by `read_arguments`.

    `values` holds both, `default_origin` is where a default comes from. Values are as written: see `number` and `flag`.
    `spellings` are the names of a key that has several, the one that counts first; `versions` those in force.
    """

    section: Section
    defaults: Mapping[str, Any]
    source: str
    world_size: int | None
    values: Mapping[str, Any]
    default_origin: Origin
    spellings: Mapping[str, tuple[str, ...]] = {}
    versions: Mapping[str, Version] = {}

    def but(self, keys: Mapping[str, Any]) -> Arguments:
        """The same section with other values of some keys; None takes a key away."""
        section = self.section._replace(value=_merged(self.section.value, keys, {}))
        return self._replace(section=section, values=_merged(self.values, keys, self.defaults))

    def written(self, key: str) -> str | None:
        """The name under which the file gives `key` (null counts as not given), else None."""
        given = self.section.value
        if key not in self.spellings:
            return key if given.get(key) is not None else None
        return next((name for name in self.spellings[key] if given.get(name) is not None), None)

    def is_open(self, key: str) -> bool:
        """Whether a program or a file that is not in the repository may set `key`, which the command does not give."""
        start = self.section.document.start
        if start is None or self.written(key) is not None:
            return False
        return start.program.is_foreign or any(NOT_READ in reason for reason in start.values.unknown.values())

    def get(self, key: str) -> Any:
        """The file's value of `key`, else the default, else None."""
        return self.values.get(key)

    def origin(self, key: str) -> Origin:
        """Where `get(key)` comes from."""
        name = self.written(key)
        return self.default_origin if name is None else self.section.origin(name)

    def flag(self, key: str) -> bool:
        """`get(key)` as a boolean; what is no boolean counts as the default (validation reports it)."""
        value = self.values.get(key)
        if value is True or value is False:
            return value
        value = as_bool(value)
        return bool(as_bool(self.defaults.get(key))) if value is None else value

    def integer(self, key: str) -> int | None:
        """`get(key)` as a whole number, else None."""
        return as_int(self.values.get(key))

    def number(self, key: str) -> float | int | None:
        """`get(key)` as a number, else None."""
        return as_number(self.values.get(key))

    def word(self, key: str) -> str:
        """`get(key)` as lower-case text; "" for anything else. YAML 1.1 reads a bare `no` as false: "no"."""
        value = self.values.get(key)
        if isinstance(value, str):
            return value.lower()
        return ("no", "yes")[value] if isinstance(value, bool) else ""

    def release(self, framework: str, newest: Version) -> Version:
        """The version of `framework` in force; `newest` where nobody stated one."""
        return self.versions.get(framework, newest)


def _merged(values: Mapping[str, Any], keys: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**values, **keys}
    for key in (key for key, value in keys.items() if value is None):
        del merged[key]
        if key in defaults:
            merged[key] = defaults[key]
    return merged
