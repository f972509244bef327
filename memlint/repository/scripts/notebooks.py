"""Extracts the commands of a notebook's cells as one shell script, whose words keep their places in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from memlint.repository.scripts.part import Part
from memlint.source.document import Document, Path
from memlint.source.shell.text import Piece, Text, Where

MOST_CELLS = 1_000
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script (?:ba)?sh|shell)\b")
# IPython fills in the notebook's own variables, and attributes and items of them: `{config.MODEL}`, `{args['lr']}`.
_FILLED_IN = re.compile(r"\{([A-Za-z_]\w*(?:\.\w+|\[[\w']+\])*)\}")
_JSON_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)


def commands_in_notebook(document: Document) -> Iterator[Part]:
    """The commands of a notebook's cells as one script: `!torchrun ...`, `%cd folder`, and cells under `%%bash`."""
    value = document.value
    cells = value.get("cells") if isinstance(value, dict) else None
    found: list[Text] = []
    for number, cell in enumerate(cells[:MOST_CELLS] if isinstance(cells, list) else ()):
        if isinstance(cell, dict) and cell.get("cell_type") == "code":
            found += _of_cell(document, number, cell.get("source"))
    if found:
        yield Part(tuple(piece for text in found for piece in text))


def _of_cell(document: Document, cell: int, source: object) -> Iterator[Text]:
    is_list = isinstance(source, list)
    lines = source if isinstance(source, list) else [source]
    is_shell = is_inside = False
    for number, line in enumerate(lines):
        pointer: Path = ("cells", cell, "source", number) if is_list else ("cells", cell, "source")
        if not isinstance(line, str) or pointer not in document.places:
            continue
        if number == 0 and _SHELL_CELL.match(line):
            is_shell = True
            if not is_list:
                yield _json_text(document, pointer, line.partition("\n")[0] + "\n", "")
            continue
        start = line.lstrip()
        if is_shell or is_inside:
            yield _json_text(document, pointer, "", "\n")
        elif start.startswith("!") and is_list:
            yield _json_text(document, pointer, line[: line.index("!") + 1], "\n")
        elif start.startswith("%cd ") and is_list:
            yield _json_text(document, pointer, line[: line.index("%") + 1], "\n")
        else:
            continue
        is_inside = not is_shell and line.rstrip("\n").endswith("\\")


def _json_text(document: Document, pointer: Path, without: str, end: str) -> Text:
    """A string of the JSON as text of a script, without the prefix `without`. Each part keeps its place in the file."""
    place = document.places[pointer].value
    raw = document.text[place.start + 1 : place.end - 1]
    position = len(json.dumps(without, ensure_ascii=False)) - 2
    found: list[Piece] = []
    while position < len(raw):
        escape = _JSON_ESCAPE.match(raw, position)
        if escape is not None:
            found.append(Piece(_unescaped(escape[0])))
            position = escape.end()
            continue
        stop = raw.find("\\", position)
        stop = len(raw) if stop < 0 else stop
        found += _filled_in(document.path, raw[position:stop], place.start + 1 + position)
        position = stop
    if end and not (found and found[-1].text.endswith("\n")):
        found.append(Piece(end))
    return tuple(piece for piece in found if piece.text)


def _unescaped(escape: str) -> str:
    try:
        return str(json.loads(f'"{escape}"'))
    except ValueError:
        return escape


def _filled_in(path: str, text: str, start: int) -> Iterator[Piece]:
    """The text with `{name}` as the shell's `${name}`."""
    position = 0
    for match in _FILLED_IN.finditer(text):
        if match.start() and text[match.start() - 1] == "$":
            continue
        yield Piece(text[position : match.start()], Where(path, start + position, start + match.start()))
        name = "_".join(re.findall(r"\w+", match[1]))
        yield Piece(f"${{{name}}}", Where(path, start + match.start(), start + match.end()))
        position = match.end()
    yield Piece(text[position:], Where(path, start + position, start + len(text)))
