"""One line out of a data file of one JSON object a line, without parsing the others."""

from __future__ import annotations

import os

_texts: dict[str, bytes] = {}


def text(name: str) -> bytes:
    """The bytes of a file beside this module, read once; a newline stands before the first line too."""
    if name not in _texts:
        with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
            _texts[name] = b"\n" + file.read()
    return _texts[name]


def line(name: str, start: bytes) -> bytes:
    """The line that begins with `start`, b"" where there is none."""
    data = text(name)
    at = data.find(b"\n" + start)
    return b"" if at < 0 else data[at + 1 : data.find(b"\n", at + 1)]
