"""Colour, width and safety of what goes to a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from memlint._record import NamedTuple

CODES = {
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "dim": "2",
    "bold": "1",
    "good": "32",
    "rule": "35",
    "fix": "36",
}
# C0 and C1 controls, and the marks that reorder or break text: a config must not move the cursor or hide itself.
UNSAFE = (
    {code: "�" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
    | dict.fromkeys((*range(8234, 8239), *range(8294, 8298), 8206, 8207, 1564, 8232, 8233), "�")
    | dict.fromkeys(range(55296, 57344), "�")
)


class Style(NamedTuple):
    """How to write: with colour, with hyperlinks, with Unicode block characters."""

    colour: bool = False
    links: bool = False
    blocks: bool = True
    folder: str = ""  # what relative paths in links count from

    def paint(self, text: str, role: str) -> str:
        return f"\x1b[{CODES[role]}m{text}\x1b[0m" if self.colour else text

    def link(self, text: str, url: str) -> str:
        if not (self.links and url):
            return text
        return f"\x1b]8;;{clean(url)}\x1b\\{text}\x1b]8;;\x1b\\"

    def file_link(self, text: str, path: str) -> str:
        """`text` as a link to a file, for terminals that open one."""
        if not (self.links and self.folder):
            return text
        return self.link(text, "file://" + _quoted(os.path.join(self.folder, path).replace(os.sep, "/")))


PLAIN = Style()
_UNQUOTED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_BREAKS = dict.fromkeys((0x09, 0x0A), " ")


def clean(text: str) -> str:
    """`text` without control characters, bidirectional marks and lone surrogates; tabs and line feeds stay."""
    return text.translate(UNSAFE)


def one_line(text: str) -> str:
    """`clean`, and on one line."""
    return clean(text).translate(_BREAKS)


def _quoted(path: str) -> str:
    """`path` as in a URL (RFC 3986)."""
    data = path.encode("utf-8", "replace")
    return "".join(chr(byte) if byte in _UNQUOTED else f"%{byte:02X}" for byte in data)


def starts_safely(text: str) -> str:
    """`text` as it may start a line: GitHub's runner takes lines that start with `::`, even indented, as commands."""
    return f"./{text}" if text.lstrip().startswith("::") else text


def style_for(stream: TextIO, environment: Mapping[str, str] = os.environ, colour: bool | None = None) -> Style:
    """Colour by `--no-color`, NO_COLOR, FORCE_COLOR, TERM and whether `stream` is a terminal, in that order."""
    terminal = stream.isatty()
    if colour is None:
        colour = terminal and environment.get("TERM") != "dumb"
        colour = bool(environment.get("FORCE_COLOR")) or colour
        colour = colour and not environment.get("NO_COLOR")
    encoding = (getattr(stream, "encoding", "") or "utf-8").lower()
    links = colour and terminal and not environment.get("CI")
    return Style(colour, links, encoding.replace("-", "").startswith("utf"), os.getcwd() if links else "")
