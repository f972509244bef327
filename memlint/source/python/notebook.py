"""Notebooks: joins the code of their cells to one text, and maps each of its characters to the file's JSON."""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterator

from memlint._record import NamedTuple
from memlint.source import load
from memlint.source.document import Document, Problem, Span
from memlint.source.encoding import MAX_BYTES
from memlint.source.lines import Lines, span_at
from memlint.source.python.text import SourceText, parse

MAX_CELLS = 1_000
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
_TRAINER = re.compile(rb"Trainer\b|\bunsloth\b|(?:from|import) (?:trl|peft)\b")
_MAGIC = re.compile(r"^(\s*)([%!?].*)$")


class Line(NamedTuple):
    """A line of a cell: its text, and the range of its string in the file, without the quotes."""

    text: str
    start: int
    end: int


class Notebook(SourceText):
    """The code cells of a notebook. Spans are places in the notebook's file."""

    __slots__ = ("_file", "_file_lines", "_line_starts", "_written", "commands")

    def __init__(self, document: Document, cells: list[list[Line]]) -> None:
        written = [line for cell in cells for line in cell]
        code = "".join(line.text for line in written)
        blocks = _blocks(document.path, cells)
        tree = ast.Module(body=[statement for block in blocks for statement in block], type_ignores=[])
        super().__init__(document.path, code, tree, blocks)
        self._file = document.text
        self._file_lines = Lines(document.text)
        self._written = written
        starts, at = [], 0
        for line in written:
            starts.append(at)
            at += len(line.text)
        self._line_starts = starts
        self.commands = tuple(line for line in written if line.text.lstrip().startswith("!"))

    def place(self, start: int, end: int) -> Span:
        """The place in the file of the code's characters `start` to `end`."""
        return self._file_lines.span(self._in_file(start), self._in_file(end))

    def code_before(self, offset: int) -> str:
        """The code before an offset in the file, if that is in a line of code; else ""."""
        at = 0
        for line in self._written:
            if line.start <= offset <= line.end:
                return self.text[:at] + str(json.loads(f'"{self._file[line.start : offset]}"'))
            at += len(line.text)
        return ""

    def _in_file(self, offset: int) -> int:
        """The offset in the file of a character of the code: JSON writes some characters as escapes."""
        index = max(0, bisect_right(self._line_starts, offset) - 1)
        line = self._written[index]
        within, at = offset - self._line_starts[index], line.start
        raw = self._file[line.start : line.end]
        if "\\" not in raw:
            return min(line.end, at + within)
        position = 0
        while (escape := raw.find("\\", position, position + within)) >= 0:
            match = _ESCAPE.match(raw, escape)
            within -= escape - position + 1
            position = match.end() if match else escape + 1
        return min(line.end, at + position + within)


def read(document: Document) -> Notebook | Problem:
    """The notebook with the JSON `document`, or a Problem if it is not one. Cells in other languages are left out."""
    value = document.value
    cells = value.get("cells") if isinstance(value, dict) else None
    if not isinstance(cells, list):
        return Problem("notebook", "not a notebook: it has no list of cells", span_at(document.text, 0), fatal=True)
    code = [number for number, cell in enumerate(cells[:MAX_CELLS]) if _is_code(cell)]
    return Notebook(document, [list(_lines(document, number)) for number in code])


def too_large(data: bytes, path: str) -> Document | None:
    """A document with a problem, for a training notebook above the size limit (usually because of its outputs); None
    for any other file."""
    if len(data) <= MAX_BYTES or _TRAINER.search(data) is None:
        return None
    message = (
        f"the notebook has more than {MAX_BYTES:,} bytes, which memlint does not read: most of it are outputs; "
        "`jupyter nbconvert --clear-output --inplace` takes them out"
    )
    (empty,) = load(b"", path, syntax="json")[:1]
    return empty._replace(problems=(Problem("too-large", message, span_at("", 0), severity="info"),))


def _is_code(cell: object) -> bool:
    return isinstance(cell, dict) and cell.get("cell_type") == "code" and isinstance(cell.get("source"), (list, str))


def _lines(document: Document, cell: int) -> Iterator[Line]:
    source = document.value["cells"][cell]["source"]
    lines = source if isinstance(source, list) else [source]
    for number, text in enumerate(lines):
        pointer = ("cells", cell, "source", number) if isinstance(source, list) else ("cells", cell, "source")
        place = document.places.get(pointer)
        if not isinstance(text, str) or place is None:
            continue
        whole = text if text.endswith("\n") or number < len(lines) - 1 else f"{text}\n"
        yield Line(whole, place.value.start + 1, place.value.end - 1)


def _blocks(path: str, cells: list[list[Line]]) -> list[list[ast.stmt]]:
    """The statements of each cell, with line numbers of the whole code."""
    blocks: list[list[ast.stmt]] = []
    first = 0
    for cell in cells:
        text = "".join(line.text for line in cell)
        parsed = parse(path, _without_magics(text)) if not text.lstrip().startswith("%%") else None
        if isinstance(parsed, SourceText):
            blocks.append([ast.increment_lineno(statement, first) for statement in parsed.tree.body])
        first += text.count("\n")
    return blocks


def _without_magics(text: str) -> str:
    """The code with `pass` instead of each line for IPython itself (`%magic`, `!command`, `?help`)."""
    return "".join(_plain_line(line) for line in text.splitlines(keepends=True))


def _plain_line(line: str) -> str:
    match = _MAGIC.match(line.rstrip("\r\n"))
    return f"{match[1]}pass\n" if match else line
