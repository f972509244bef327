"""Colour, width and safety of what goes to a terminal."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
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
    "path": "1;4",
}
NARROWEST, WIDEST = 40, 200  # columns: below, words would not fit; above, lines are hard to follow
# Terminals that support OSC 8 links, by the environment variables that they set; others may print garbage.
LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "Tabby", "rio", "zed", "mintty")
LINKING_TERMS = ("kitty", "alacritty", "foot", "ghostty", "wezterm", "contour")
LINKING_VARIABLES = ("WT_SESSION", "KONSOLE_VERSION", "DOMTERM", "KITTY_WINDOW_ID")
OLDEST_VTE = 5000  # GNOME Terminal and its relatives: links since VTE 0.50


class Style(NamedTuple):
    """How to write: with colour, with hyperlinks, with Unicode block characters.

    `width`: the columns of the terminal. 0 if there is none: then lines are not broken, and each finding is printed
    with its path, for grep and editors.
    """

    colour: bool = False
    links: bool = False
    blocks: bool = True
    folder: str = ""  # what relative paths in links count from
    width: int = 0
    jumps: bool = False  # a link to a file may name a line: "#L5,13"

    def paint(self, text: str, role: str) -> str:
        return f"\x1b[{CODES[role]}m{text}\x1b[0m" if self.colour else text

    def link(self, text: str, url: str) -> str:
        if not (self.links and url):
            return text
        return f"\x1b]8;;{clean(url)}\x1b\\{text}\x1b]8;;\x1b\\"

    def file_link(self, text: str, path: str, line: int = 0, column: int = 1) -> str:
        """`text` as a link to a file, for terminals that open one; to a line of it, for those that can."""
        if not (self.links and self.folder):
            return text
        place = f"#L{line},{column}" if self.jumps and line else ""
        return self.link(text, "file://" + _quoted(os.path.join(self.folder, path).replace(os.sep, "/")) + place)


PLAIN = Style()
_UNQUOTED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")
_BREAKS = dict.fromkeys((0x09, 0x0A), " ")


@cache
def unsafe_characters() -> Mapping[int, str]:
    """Code points that text of a config must not write to a terminal, with their replacements.

    They are C0 and C1 controls, and marks that reorder or break text: they could move the cursor or hide words.
    """
    controls = {code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in (0x09, 0x0A)}
    marks = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C, 0x2028, 0x2029)
    return controls | dict.fromkeys((*marks, *range(0xD800, 0xE000)), "\ufffd")


def clean(text: str) -> str:
    """`text` without control characters, bidirectional marks and lone surrogates; tabs and line feeds stay."""
    return text.translate(unsafe_characters())


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


def columns(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def style_for(stream: TextIO, environment: Mapping[str, str] = os.environ, colour: bool | None = None) -> Style:
    """Colour by `--color`, NO_COLOR, FORCE_COLOR, TERM and whether `stream` is a terminal, in that order."""
    terminal = stream.isatty()
    dumb = environment.get("TERM") == "dumb"
    if colour is None:
        forced = environment.get("FORCE_COLOR", "")
        wanted = forced != "0" if forced else terminal and not dumb
        colour = wanted and not environment.get("NO_COLOR")
    encoding = (getattr(stream, "encoding", "") or "utf-8").lower()
    links = bool(colour and terminal and not dumb and links_are_followed(environment))
    return Style(
        colour,
        links,
        encoding.replace("-", "").startswith("utf"),
        os.getcwd() if links else "",
        _width(stream, environment) if terminal else 0,
        environment.get("TERM_PROGRAM") == "vscode",
    )


def links_are_followed(environment: Mapping[str, str]) -> bool:
    """Whether the terminal supports OSC 8 links: by FORCE_HYPERLINK, else by the variables that the terminal sets."""
    forced = environment.get("FORCE_HYPERLINK")
    if forced:
        return forced != "0"
    term = environment.get("TERM", "")
    if environment.get("CI") or term.startswith(("screen", "tmux", "linux")):
        return False
    vte = environment.get("VTE_VERSION", "")
    return (
        environment.get("TERM_PROGRAM") in LINKING_PROGRAMS
        or any(name in term for name in LINKING_TERMS)
        or any(environment.get(name) for name in LINKING_VARIABLES)
        or (vte.isdecimal() and int(vte) >= OLDEST_VTE)
    )


def _width(stream: TextIO, environment: Mapping[str, str]) -> int:
    """The columns of the terminal, by COLUMNS or its own answer; 0 if unknown (as when pre-commit runs hooks)."""
    stated = environment.get("COLUMNS", "")
    try:
        found = int(stated) if stated.isdecimal() and len(stated) < 5 else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 0
    return min(max(found, NARROWEST), WIDEST) if found else 0
