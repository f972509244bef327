"""Extracts the recipes of Makefiles and justfiles as shell scripts.

Each script is a sequence of pieces of the file's text in the order in which a shell reads them, so that every word
keeps its place in the file. The recipes of one target are one script.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from memlint.repository.scripts.part import MOST_PARTS, Part
from memlint.source.shell.text import Piece, Text, Where, literal

MAKEFILES = ("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", ".justfile")
_VARIABLE = re.compile(r"(?m)^(?:export +)?([A-Za-z_]\w*)[ \t]*(\?=|:=|::=|=)[ \t]*([^\n#]*)")
# A line that ends with CRLF ends as one that ends with LF, after a backslash too (GNU make 4.3 src/read.c, readline).
_RECIPE = re.compile(r"(?m)^(?:\t| {2,4}(?=\S))((?:[^\n\\]|\\\r?\n|\\.)*)\n?")
_TARGET = re.compile(r"(?m)^[\w./%$(){}@-][^\n=]*:(?!=)[^\n]*\n")
# `train gpus="4" *args: build`: a recipe of a justfile, with parameters (just's manual, "Recipe Parameters").
_PARAMETER = r"""[+*$]?[A-Za-z_][\w-]*(?:=(?:"[^"\n]*"|'[^'\n]*'|[\w./-]+))?"""
_JUST_RECIPE = re.compile(rf"(?m)^@?[A-Za-z_][\w-]*((?:[ \t]+{_PARAMETER})*)[ \t]*:(?!=)[^\n]*\n")
_DEFAULT = re.compile(r"""[+*$]?([A-Za-z_]\w*)=("[^"\n]*"|'[^'\n]*'|[\w./-]+)""")
_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)|\{\{ *([A-Za-z_]\w*) *\}\}")


def holds_recipes(path: str) -> bool:
    return posixpath.basename(path) in MAKEFILES or path.endswith((".mk", ".just"))


def recipes(path: str, text: str) -> Iterator[Part]:
    """A script for each target of a Makefile or justfile, with the file's variables in front."""
    is_just = posixpath.basename(path).lower().endswith(("justfile", ".just"))
    variables = [part for match in _VARIABLE.finditer(text) for part in _assignment(path, match)]
    targets = list((_JUST_RECIPE if is_just else _TARGET).finditer(text))
    for index, target in enumerate(targets[:MOST_PARTS]):
        end = targets[index + 1].start() if index + 1 < len(targets) else len(text)
        lines = [part for match in _RECIPE.finditer(text, target.end(), end) for part in _line(path, text, match)]
        if lines:
            yield Part((*variables, *(_defaults(path, target) if is_just else ()), *lines))


def _defaults(path: str, recipe: re.Match[str]) -> Iterator[Piece]:
    """The parameters of a justfile's recipe that have a default, as shell code."""
    for match in _DEFAULT.finditer(recipe.string, *recipe.span(1)):
        yield Piece(f"{match[1]}=")
        yield Piece(match[2], Where(path, *match.span(2)))
        yield Piece("\n")


def _assignment(path: str, match: re.Match[str]) -> Text:
    """`NAME ?= value` as shell code, in which the environment may override the value."""
    value = match[3].rstrip()
    start = match.start(3)
    parts = _pieces(path, value, start)
    if match[2] == "?=":
        return (*literal(f'{match[1]}="${{{match[1]}:-'), *parts, *literal('}"\n'))
    quote = "" if value[:1] in "'\"" else '"'
    return (*literal(f"{match[1]}={quote}"), *parts, *literal(f"{quote}\n"))


def _line(path: str, text: str, match: re.Match[str]) -> Text:
    """One line of a recipe without its `@` and `-`; each runs in a shell of its own, so that `cd` ends with it."""
    line = match[1]
    start = match.start(1) + len(line) - len(line.lstrip("@-+"))
    return (*literal("("), *_pieces(path, line.lstrip("@-+"), start), *literal("\n)\n"))


def _pieces(path: str, text: str, start: int) -> Text:
    """The text with `$(NAME)` and `{{NAME}}` as `${NAME}`, `$$` as `$`, and no carriage return at the end of a line."""
    found: list[Piece] = []
    position = 0
    for match in re.finditer(rf"{_REFERENCE.pattern}|\$\$|\r(?=\n|\Z)", text):
        found.append(Piece(text[position : match.start()], Where(path, start + position, start + match.start())))
        name = match[1] or match[2]
        stands_for = f"${{{name}}}" if name else match[0][:-1]
        found.append(Piece(stands_for, Where(path, start + match.start(), start + match.end())))
        position = match.end()
    found.append(Piece(text[position:], Where(path, start + position, start + len(text))))
    return tuple(piece for piece in found if piece.text)
