"""The registry of what plug-ins added. `memlint.plugins` fills it, each package reads its part of it.

Empty unless somebody named a plug-in; nothing here imports anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

formats: list[Any] = []  # formats.base.Format, asked after memlint's own
rules: list[Any] = []  # ruleset.rule.Rule
optimizers: dict[str, Mapping[str, Any]] = {}  # lower-case name -> entry as in memory/state/optimizers.json
outputs: dict[str, Callable[[Any], str]] = {}  # name of a --format -> render(report)
gpus: dict[str, Any] = {}  # lower-case name -> hardware.model.Gpu
documents: dict[str, Any] = {}  # id of a rule -> source.document.Document, as it is written
loaded: dict[str, str] = {}  # plug-in as it was named -> the file it came from


class Fault(Exception):
    """An error in a plug-in's code while it ran; the message names the plug-in and the place."""


def clear() -> None:
    """Removes every plug-in (for tests)."""
    for part in (formats, rules, optimizers, outputs, gpus, documents, loaded):
        part.clear()
