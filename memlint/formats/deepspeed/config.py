"""Reading values out of a DeepSpeed configuration: dotted keys, spellings, and what `auto` becomes."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.formats.fields import Section, as_bool, as_int
from memlint.formats.training_arguments import Arguments
from memlint.run import Origin

SOURCE = "deepspeed 0.19.8"
AUTO = "auto"


class Config(NamedTuple):
    """A DeepSpeed mapping and the training arguments behind it (None: it stands alone)."""

    section: Section
    arguments: Arguments | None

    def get(self, *keys: str) -> Any:
        """The value at `keys`, None where a step is missing or no mapping."""
        value: Any = self.section.value
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    def mapping(self, *keys: str) -> dict[str, Any]:
        """The mapping at `keys`; empty where there is none."""
        value = self.get(*keys)
        return value if isinstance(value, dict) else {}

    def origin(self, *keys: str) -> Origin:
        """The place of a value that is there, else DeepSpeed's default."""
        return self.section.origin(*keys) if self.get(*keys) is not None else Origin("default", detail=SOURCE)

    def spelled(self, *keys: str, also: str) -> tuple[str, ...]:
        """`keys`, or the same with its last part spelled `also` where only that is there."""
        other = (*keys[:-1], also)
        return other if self.get(*keys) is None and self.get(*other) is not None else keys

    def is_auto(self, *keys: str) -> bool:
        return bool(self.get(*keys) == AUTO)

    def flag(self, *keys: str, default: bool) -> bool:
        """A boolean; `auto` and what is no boolean mean the default (config_utils.py drops "auto")."""
        value = as_bool(self.get(*keys))
        return default if value is None else value

    def integer(self, *keys: str) -> int | None:
        return as_int(self.get(*keys))


def dtype_of(word: Any) -> str:
    """runtime/config.py `DtypeEnum`: a dtype's canonical name, "" for none."""
    names = {
        **dict.fromkeys(("fp32", "float32", "float"), "float32"),
        **dict.fromkeys(("fp16", "float16", "half"), "float16"),
        **dict.fromkeys(("bf16", "bfloat16"), "bfloat16"),
    }
    return names.get(word.removeprefix("torch."), "") if isinstance(word, str) else ""
