"""Colour, links and escapes, by where the output goes."""

from __future__ import annotations

import io

import pytest

from memlint.report.terminal import Style, clean, one_line, style_for
from memlint.report.text import render
from tests.report.hostile import report


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "option", "colour", "links"),
    [
        (True, {"TERM": "xterm"}, None, True, False),
        (True, {"TERM": "xterm-kitty"}, None, True, True),
        (True, {"TERM": "dumb"}, None, False, False),
        (True, {"NO_COLOR": "1", "WT_SESSION": "a"}, None, False, False),
        (True, {"NO_COLOR": "", "WT_SESSION": "a"}, None, True, True),
        (True, {"CI": "true", "WT_SESSION": "a"}, None, True, False),
        (True, {"WT_SESSION": "a"}, False, False, False),
        (True, {"TERM_PROGRAM": "vscode"}, None, True, True),
        (True, {"TERM_PROGRAM": "Apple_Terminal"}, None, True, False),
        (True, {"VTE_VERSION": "7006"}, None, True, True),
        (True, {"VTE_VERSION": "4205"}, None, True, False),
        (True, {"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None, True, False),
        (True, {"TERM": "tmux-256color", "FORCE_HYPERLINK": "1"}, None, True, True),
        (True, {"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, None, True, False),
        (False, {"TERM": "xterm-kitty"}, None, False, False),
        (False, {}, True, True, False),
        (False, {"FORCE_COLOR": "1"}, None, True, False),
        (False, {"FORCE_COLOR": "0"}, None, False, False),
        (True, {"FORCE_COLOR": "0"}, None, False, False),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, None, False, False),
    ],
)
def test_colour_and_links_where_terminal_environment_and_option_say_so(
    terminal: bool, environment: dict[str, str], option: bool | None, colour: bool, links: bool
) -> None:
    style = style_for(Stream(terminal), environment, option)

    assert (style.colour, style.links) == (colour, links)


@pytest.mark.parametrize(("columns", "width"), [("", 0), ("100", 100), ("8", 40), ("999", 200), ("wide", 0)])
def test_the_width_is_a_terminals(columns: str, width: int) -> None:
    """A stream that has no terminal behind it does not say; nothing is broken in a pipe."""
    assert style_for(Stream(True), {"COLUMNS": columns}).width == width
    assert style_for(Stream(False), {"COLUMNS": columns}).width == 0


def test_an_editor_jumps_to_the_line() -> None:
    told = render(report("a"), Style(True, True, True, "/home", jumps=True))

    assert "\x1b]8;;file:///home/dir/a.yaml#L" in told


def test_places_link_to_their_files() -> None:
    told = render(report("a b"), Style(True, True, True, "/home/me/my repo"))

    assert "\x1b]8;;file:///home/me/my%20repo/dir/a%20b.yaml\x1b\\" in told
    assert told.count("\x1b]8;;\x1b\\") == told.count("\x1b]8;;file:")


def test_only_our_own_escapes_reach_a_terminal() -> None:
    told = render(report("\x1b[31m\x1b]8;;http://x\x1b\\ \x9b2J\x07"), Style(True, True, True, "/"))

    left = told
    for own in (
        "\x1b[0m",
        "\x1b]8;;",
        "\x1b\\",
        *(f"\x1b[{code}m" for code in ("1;31", "1;33", "1;36", "2", "1", "32", "35", "36")),
    ):
        left = left.replace(own, "")
    assert "\x1b" not in left
    assert "\x9b" not in left
    assert "\x07" not in left


def test_clean_keeps_what_people_write() -> None:
    assert clean("Größe 中文 🙂 a\tb\nc") == "Größe 中文 🙂 a\tb\nc"
    assert one_line("a\tb\nc") == "a b c"
