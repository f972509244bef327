"""A value that a command gives a key, with its places in the script."""

from __future__ import annotations

from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Path
from memlint.source.shell.text import Where


class Placed(NamedTuple):
    """A value for a key. `key`, `value_at`: the places of flag and value. `source`: where the value is assigned."""

    path: Path
    value: Any
    key: Where | None = None
    at: Where | None = None
    source: Where | None = None
    unknown: str = ""


_ENGINES = frozenset({"deepspeed", "fsdp", "fsdp_config"})


def not_known(key: str, reason: str) -> Placed:
    """A key with an unknown value. For an engine the value is None, because a placeholder would enable it."""
    return Placed((key,), None if key in _ENGINES else f"${{{key}}}", unknown=reason)
