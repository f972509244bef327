"""Config formats: each turns its files into `Run`s. To add one, write its module and name it in `_NAMES`."""

from __future__ import annotations

from typing import cast

import memlint.plugin_registry as extensions
from memlint._lazy import Lazy
from memlint.formats.base import Format, Recognition
from memlint.source.document import Document

_NAMES = (
    *("llamafactory", "deepspeed", "accelerate", "trainer", "axolotl", "verl", "easyr1", "swift", "openrlhf"),
    *("megatron", "nemo_rl"),
)
FORMATS = tuple(
    cast("Format", Lazy(f"memlint.formats.{name}.format")) for name in _NAMES
)  # imported as files need them


def every() -> tuple[Format, ...]:
    """memlint's own formats, and those of plug-ins."""
    return (*FORMATS, *extensions.formats) if extensions.formats else FORMATS


_RANK = {"certain": 3, "likely": 2, "unsure": 1, "no": 0}


def recognise(document: Document) -> tuple[Format, Recognition] | None:
    """The format that claims `document` most firmly (the first of equals), judged by its keys alone.

    None for TOML, which no framework reads by itself.
    """
    if document.syntax == "toml":
        return None
    best: tuple[Format, Recognition] | None = None
    for candidate in every():
        recognition = candidate.recognise(document)
        if _RANK[recognition.confidence] > (_RANK[best[1].confidence] if best else 0):
            best = (candidate, recognition)
        if recognition.confidence == "certain":
            break
    return best
