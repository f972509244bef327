"""One line of a JSON-lines data file, without parsing the others."""

from __future__ import annotations

import os
from functools import cache


@cache
def text(name: str) -> bytes:
    """The bytes of a file beside this module, read once, with a newline before the first line."""
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        return b"\n" + file.read()


def line(name: str, start: bytes) -> bytes:
    """The line that begins with `start`, b"" where there is none."""
    data = text(name)
    at = data.find(b"\n" + start)
    return b"" if at < 0 else data[at + 1 : data.find(b"\n", at + 1)]
