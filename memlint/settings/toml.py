"""The table [tool.memlint] of a pyproject.toml as a document with places."""

from __future__ import annotations

from typing import Any

from memlint.source import load
from memlint.source.document import Document
from memlint.source.layout import Places, find
from memlint.source.lines import Lines

_SECTION = ("tool", "memlint")


def section(data: bytes, path: str) -> Document | None:
    """The table as a document; None where the file has none. Invalid TOML becomes a fatal problem of the document."""
    if b"memlint" not in data:
        return None
    (file,) = load(data, path, syntax="toml")
    if file.problems:
        return file
    value: Any = file.value
    for name in _SECTION:
        value = value.get(name) if isinstance(value, dict) else None
    if value is None:
        return None
    assert isinstance(file.places, Places)  # of a file that was read
    entry = find(file.places.root, _SECTION)
    assert entry is not None  # as of every value
    return file._replace(value=value, places=Places(entry, Lines(file.text)))
