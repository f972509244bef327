"""Extracts commands from pages: lines of Markdown and of comments that name a launcher, a script or a folder.

A page is not a script, so each command is read by itself. Notation that is not shell is converted or removed: prompts,
inline code, placeholders (`<config>`, `{CONFIG}`, `[CONFIG]`, `[small|large]`), unclosed quotes, a missing backslash
before an option. Every character keeps its place in the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from memlint.repository.launch.pages import HINTS
from memlint.source.shell.text import Piece, Text, Where

MOST_LINES = 60  # of one command
MOST_LETTERS = 4096  # of one command
COMMAND = re.compile(rf"{HINTS}|\.(?:sh|bash|slurm|sbatch)\b|(?m:^[$#> \t]{{0,8}}cd )|&& *cd ")
_OPTION = re.compile(r"[# \t]*--[a-z]")
_PROMPT = re.compile(r"[$#>%\s]+(?=\s)\s*|\s+")
_CODE = re.compile(r"[^`]+")
_PLACEHOLDER = re.compile(
    r"<\w[^<>\n]{0,80}>|(?<!\$)\{[A-Za-z_]\w{0,80}\}|(?<=[ =])\[[A-Z][A-Z_]{2,80}\](?!\()"
    r"|(?<=[ =])[\[{(][\w.-]{1,40}(?: ?\| ?[\w.-]{1,40}){1,20}[\]})]"
)


def snippets(path: str, text: str, start: re.Pattern[str] = COMMAND) -> Iterator[Text]:
    """The commands of a page, in order. Places are in the file `path`. `start`: matches the beginning of a command."""
    done = 0  # the end of the last command
    for match in start.finditer(text):
        if match.start() < done:
            continue
        begin = text.rfind("\n", 0, match.start()) + 1
        lines, done = _command_lines(text, begin)
        for parts in _inline_code(text, lines):
            yield tuple(piece for start, end in parts for piece in _pieces(path, text, start, end))


def _command_lines(text: str, begin: int) -> tuple[list[tuple[int, int]], int]:
    """(ranges of the line at `begin` and of its continuation lines, without prompts and backslashes; their end)."""
    found: list[tuple[int, int]] = []
    letters, start = 0, begin
    for _ in range(MOST_LINES):
        end = text.find("\n", start, start + MOST_LETTERS)
        end, following = (end, end + 1) if end >= 0 else (min(len(text), start + MOST_LETTERS),) * 2
        goes_on = text[start:end].endswith("\\")
        prompt = _PROMPT.match(text, start, end)
        found.append((prompt.end() if prompt else start, end - goes_on))
        letters, start = letters + end - start, following
        if letters > MOST_LETTERS or start >= len(text) or not (goes_on or _OPTION.match(text, start)):
            break
    return found, start


def _inline_code(text: str, lines: list[tuple[int, int]]) -> Iterator[list[tuple[int, int]]]:
    """The lines of a command. Each part of a line in backquotes is a separate command."""
    if len(lines) > 1 or "`" not in text[slice(*lines[0])]:
        yield lines
        return
    yield from ([match.span()] for match in _CODE.finditer(text, *lines[0]))


def _pieces(path: str, text: str, start: int, end: int) -> Iterator[Piece]:
    """The text [start, end), with placeholders as unset variables and blanks for unclosed quotes."""
    position = start
    for match in _PLACEHOLDER.finditer(text, start, end):
        yield Piece(_closed(text[position : match.start()]), Where(path, position, match.start()))
        yield Piece("${_}", Where(path, *match.span()))
        position = match.end()
    yield Piece(_closed(text[position:end]), Where(path, position, end))
    yield Piece(" ")


def _closed(text: str) -> str:
    for quote in "\"'":
        text = text.replace(quote, " ") if text.count(quote) % 2 else text
    return text
