"""The values of a TorchTitan file, and which release it is for."""

from __future__ import annotations

from memlint.formats.base import Context
from memlint.formats.fields import Section, value_at
from memlint.formats.keys import Keys
from memlint.formats.section_keys import CommandKeys

SOURCE = "TorchTitan 0.2.2"
_ENDS_APART_SINCE = (0, 2)
# Keys that 0.2 does not have: its files are not for that release (0.1.0 torchtitan/config_manager.py, and before).
_BEFORE_0_2 = (
    *(("training", "batch_size"), ("training", "compile"), ("checkpoint", "enable_checkpoint")),
    *(("experimental", "context_parallel_degree"), ("training", "data_parallel_shard_degree"), ("float8",)),
)


class TitanConfig(CommandKeys):
    __slots__ = ("architecture", "context")

    def __init__(self, section: Section, keys: Keys, context: Context) -> None:
        super().__init__(section, keys, SOURCE)
        self.context = context
        self.architecture: object = None

    @property
    def is_before_0_2(self) -> bool:
        stated = self.context.versions.get("torchtitan")
        if stated:
            return tuple(stated) < _ENDS_APART_SINCE
        return any(value_at(self.section.value, path) is not None for path in _BEFORE_0_2)

    def count(self, name: str) -> int:
        """A whole number: the file's, else the default."""
        found = self.get(name)
        return found if isinstance(found, int) and not isinstance(found, bool) else 0

    def words(self, name: str) -> tuple[str, ...]:
        found = self.get(name)
        return tuple(map(str, found)) if isinstance(found, list) else ()


def has_copy(context: Context) -> bool:
    """Whether the repository has a copy of TorchTitan, whose classes may have keys of their own."""
    return bool(context.repository.own_functions("torchtitan"))
