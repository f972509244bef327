"""Reading values out of a DeepSpeed configuration: keys in sections, spellings, and what `auto` means."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int, value_at
from memlint.formats.keys import Keys
from memlint.formats.training_arguments import Arguments
from memlint.run import Origin
from memlint.source.document import Path

SOURCE = "deepspeed 0.19.8"
AUTO = "auto"


def path_of(name: str) -> tuple[str, ...]:
    """The steps of a dotted key: ("zero_optimization", "stage")."""
    return tuple(name.split("."))


class Config(NamedTuple):
    """A DeepSpeed mapping as its table of keys reads it.

    `arguments`: the training arguments behind it, None where it stands alone. `architecture`: the model's, None where
    it is not known. Keys are named as in the table; a name without a row raises KeyError.
    """

    section: Section
    arguments: Arguments | None
    keys: Keys
    architecture: Any = None

    def written(self, name: str) -> str | None:
        """The spelling under which the file gives the key, None where it does not."""
        for spelling in self.keys[name].names:
            if value_at(self.section.value, path_of(spelling)) is not None:
                return spelling
        return None

    def raw(self, name: str) -> Any:
        """What the file has at the key, None where it has nothing."""
        return value_at(self.section.value, self.path(name))

    def get(self, name: str) -> Any:
        """The value that counts. `auto`, and what is not of the key's kind, mean DeepSpeed's default
        (config_utils.py drops "auto")."""
        return self.raw(name) if self._counts(name) else self.keys[name].default

    def _counts(self, name: str) -> bool:
        return self.keys[name].neutral(self.raw(name)) is not None

    def path(self, name: str) -> Path:
        """The steps to the key, as the file spells it."""
        return path_of(self.written(name) or name)

    def origin(self, name: str) -> Origin:
        """The place of a value that is there, else DeepSpeed's default. What is no number is none that is there."""
        absent = self.raw(name) is None or (self.keys[name].kind == "whole" and not self._counts(name))
        return Origin("default", detail=SOURCE) if absent else self.section.origin(*self.path(name))

    def is_auto(self, name: str) -> bool:
        return bool(self.raw(name) == AUTO)

    def flag(self, name: str) -> bool:
        """A boolean; `auto` and what is no boolean mean the default."""
        return bool(as_bool(self.get(name)))

    def integer(self, name: str) -> int | None:
        """The whole number that the file has at the key."""
        return as_int(self.raw(name))


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
