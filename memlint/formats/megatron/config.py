"""The arguments of one command of `pretrain_gpt.py`, with Megatron-LM's defaults."""

from __future__ import annotations

from typing import Any

from memlint.formats.base import Context
from memlint.formats.fields import Section, as_int, interpolated
from memlint.formats.keys import Keys
from memlint.formats.megatron.recognise import SCHEMA
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.section_keys import CommandKeys
from memlint.run import UNKNOWN

SOURCE = "Megatron-LM core 0.19"


class MegatronConfig(CommandKeys):
    """`foreign`: the flags that no release of Megatron-LM has, so that a fork's program runs. `states_machines`: the
    command itself says how many machines there are."""

    __slots__ = ("context", "foreign")
    states_machines = False

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, SOURCE)
        self.context = context
        known = compiled_schema(SCHEMA).schema["properties"]
        self.foreign = tuple(str(key) for key in section.value if key not in known)

    def get(self, name: str) -> Any:
        """UNKNOWN for a placeholder."""
        is_open = interpolated(self.raw(name)) or self.open_because(name) is not None
        return UNKNOWN if is_open else super().get(name)

    def whole(self, name: str) -> int | None:
        """A whole number above 0: the command's or the default; None where it is not known."""
        found = as_int(self.get(name))
        return found if found is not None and found > 0 else None

    def gives(self, name: str) -> bool:
        """Whether the command gives an argument of any release, with or without a row in the table."""
        value = self.raw(name) if name in self.keys else self.section.value.get(name)
        return value is not None and value is not False

    def why(self, name: str) -> str:
        """Why a value is not known."""
        return self.origin(name).detail or f"`{name}` is not known"
