"""Config formats: each turns its files into `Run`s. To add one, write its module and name it in `FORMATS`."""

from __future__ import annotations

import memlint._extensions as extensions
from memlint.formats import accelerate, deepspeed, llamafactory, trainer
from memlint.formats.base import Format, Recognition
from memlint.source.document import Document

FORMATS: tuple[Format, ...] = (llamafactory, deepspeed, accelerate, trainer)


def every() -> tuple[Format, ...]:
    """memlint's own formats, and those of plug-ins."""
    return (*FORMATS, *extensions.formats) if extensions.formats else FORMATS


_RANK = {"certain": 3, "likely": 2, "unsure": 1, "no": 0}


def recognise(document: Document) -> tuple[Format, Recognition] | None:
    """The format that claims `document` most firmly (the first of equals), judged by its keys alone."""
    best: tuple[Format, Recognition] | None = None
    for candidate in every():
        recognition = candidate.recognise(document)
        if _RANK[recognition.confidence] > (_RANK[best[1].confidence] if best else 0):
            best = (candidate, recognition)
    return best
