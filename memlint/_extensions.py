"""What plug-ins added: the one registry. `memlint.plugins` fills it, each room reads its own part of it.

Empty unless somebody named a plug-in; nothing here imports anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

formats: list[Any] = []  # formats.base.Format, asked after memlint's own
rules: list[Any] = []  # checks.rule.Rule
optimizers: dict[str, Mapping[str, Any]] = {}  # lower-case name -> entry as in memory/optimizers.yaml
outputs: dict[str, Callable[[Any], str]] = {}  # name of a --format -> render(report)
gpus: dict[str, Any] = {}  # lower-case name -> hardware.model.Gpu
loaded: dict[str, str] = {}  # plug-in as it was named -> the file it came from


def clear() -> None:
    """Forgets every plug-in (for tests)."""
    for part in (formats, rules, optimizers, outputs, gpus, loaded):
        part.clear()
