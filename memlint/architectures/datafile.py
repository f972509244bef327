"""One line of a JSON-lines data file, without parsing the others."""

from __future__ import annotations

import os
from functools import cache


@cache
def text(name: str) -> bytes:
    """The bytes of a file beside this module, read once."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return file.read()


def line(name: str, start: bytes) -> bytes:
    """The line that begins with `start`, b"" where there is none."""
    data = text(name)
    at = 0 if data.startswith(start) else data.find(b"\n" + start) + 1
    return data[at : data.find(b"\n", at)] if data.startswith(start, at) else b""
