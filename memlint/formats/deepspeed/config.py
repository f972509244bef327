"""Reading values out of a DeepSpeed configuration: keys in sections, spellings, and what `auto` means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int
from memlint.formats.keys import Keys
from memlint.formats.training_arguments import Arguments
from memlint.run import Origin
from memlint.source.document import Path

SOURCE = "deepspeed 0.19.8"
AUTO = "auto"


def path_of(name: str) -> tuple[str, ...]:
    """The steps of a dotted key: ("zero_optimization", "stage")."""
    return tuple(name.split("."))


class Said(NamedTuple):
    """What the file gives for one key. `counts`: the value is of the key's kind; `auto` is not (config_utils.py drops
    "auto"), and then DeepSpeed's default is in force."""

    spelling: str
    value: Any
    counts: bool


class Config(NamedTuple):
    """A DeepSpeed mapping as its table of keys reads it; `config_of()` makes one.

    `arguments`: the training arguments behind it, None where it stands alone. `architecture`: the model's, None where
    it is not known. `said`: what the file gives, by the newest name of each key. A name without a row in the table
    raises KeyError.
    """

    section: Section
    arguments: Arguments | None
    keys: Keys
    architecture: Any
    said: Mapping[str, Said]

    def _said(self, name: str) -> Said:
        return self.said.get(self.keys[name].name, _NOTHING)

    def written(self, name: str) -> str | None:
        """The spelling under which the file gives the key, None where it does not."""
        return self._said(name).spelling or None

    def raw(self, name: str) -> Any:
        """What the file has at the key, None where it has nothing."""
        return self._said(name).value

    def get(self, name: str) -> Any:
        """The value that counts: the file's, else DeepSpeed's default."""
        said = self._said(name)
        return said.value if said.counts else self.keys[name].default

    def path(self, name: str) -> Path:
        """The steps to the key, as the file spells it."""
        return path_of(self.written(name) or name)

    def origin(self, name: str) -> Origin:
        """The place of a value that is there, else DeepSpeed's default. What is no number is none that is there."""
        said = self._said(name)
        absent = said.value is None or (not said.counts and self.keys[name].kind == "whole")
        return Origin("default", detail=SOURCE) if absent else self.section.origin(*path_of(said.spelling))

    def is_auto(self, name: str) -> bool:
        return bool(self.raw(name) == AUTO)

    def flag(self, name: str) -> bool:
        """A boolean; `auto` and what is no boolean mean the default."""
        return bool(as_bool(self.get(name)))

    def integer(self, name: str) -> int | None:
        """The whole number that the file has at the key."""
        return as_int(self.raw(name))


_NOTHING = Said("", None, False)


def config_of(section: Section, arguments: Arguments | None, keys: Keys, architecture: Any = None) -> Config:
    """`section` with the keys of the table that it gives. Of two spellings the newer one counts."""
    said: dict[str, Said] = {}
    for spelling, value in _keys_in(section.value):
        if spelling in keys:
            row = keys[spelling]
            if row.name not in said or row.names.index(spelling) < row.names.index(said[row.name].spelling):
                said[row.name] = Said(spelling, value, row.neutral(value) is not None)
    return Config(section, arguments, keys, architecture, said)


def _keys_in(section: Mapping[str, Any], above: str = "", depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Dotted names and values of a mapping and the sections in it; null is not given."""
    for key, value in section.items():
        if value is not None and "." not in str(key):
            yield f"{above}{key}", value
            if depth > 1 and isinstance(value, dict):
                yield from _keys_in(value, f"{above}{key}.", depth - 1)


def dtype_of(word: Any) -> str:
    """runtime/config.py `DtypeEnum`: a dtype's canonical name, "" for none."""
    return DTYPES.get(word, "") if isinstance(word, str) else ""


_SPELLINGS = {
    "float32": ("fp32", "float32", "float"),
    "float16": ("fp16", "float16", "half"),
    "bfloat16": ("bf16", "bfloat16"),
}
DTYPES = {
    spelling: dtype
    for dtype, plain in _SPELLINGS.items()
    for spelling in (*plain, *(f"torch.{word}" for word in plain))
}
