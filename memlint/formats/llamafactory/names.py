"""Lists of module names in LLaMA-Factory's keys: one text with commas between, or a list."""

from __future__ import annotations

from collections.abc import Sequence

from memlint.formats.fields import Fields
from memlint.formats.keys import FieldChange, Key, Read, When, Write, Written
from memlint.formats.llamafactory.config import LlamaFactoryConfig

_ALL = ("all",)
_EVERY_LINEAR = ("all-linear",)


def names(key: str, field: str, about: str, when: When | None = None, empty: tuple[str, ...] = ()) -> Key:
    """The row of a key with module names; `empty` is what none means."""
    default = ",".join(empty) or None
    read, write = _read(key, field, empty), _write(key)
    return Key(key, "any", field, default, about, read=read, write=write, when=when)


def targets(key: str, field: str, about: str, when: When | None = None, read_only: bool = False) -> Key:
    """The row of a key with module names where "all" means every linear layer."""
    read, write = _read(key, field, _ALL, every_linear=True), _write(key)
    return Key(key, "any", field, "all", about, read=read, write=write, when=when, read_only=read_only)


def _read(key: str, field: str, empty: tuple[str, ...], every_linear: bool = False) -> Read:
    def read(fields: Fields, config: LlamaFactoryConfig) -> None:
        found = config.words(key) or empty
        config.put(fields, field, key, _EVERY_LINEAR if every_linear and found == _ALL else found)

    return read


def _write(key: str) -> Write:
    def write(change: FieldChange) -> Written | None:
        found = change.value
        if not isinstance(found, Sequence) or not found or not all(isinstance(item, str) for item in found):
            return None
        return {key: "all" if tuple(found) == _EVERY_LINEAR else ",".join(found)}

    return write
