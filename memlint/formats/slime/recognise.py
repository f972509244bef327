"""Whether a document is slime's: by the program that a command starts."""

from __future__ import annotations

from memlint.formats.base import Recognition
from memlint.source.document import Document

NAME = "slime"
SCHEMA = "slime.json"


def recognise(document: Document) -> Recognition:
    """Arguments come from a command alone: the reader of scripts says whose they are."""
    start = document.start
    if start is not None and start.format == NAME:
        return Recognition("certain", reason="a command of slime's train.py")
    return Recognition("no")
