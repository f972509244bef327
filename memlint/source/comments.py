"""The comments of a YAML file, found by what lies between its scalars."""

from __future__ import annotations

import re

from yaml import YAMLError
from yaml.events import ScalarEvent

from memlint.source.document import Comment, Document
from memlint.source.lines import Lines
from memlint.source.yaml import Parser

_REST_OF_LINE = re.compile(r"[^\r\n]*")


def comments(document: Document) -> tuple[Comment, ...]:
    """All comments of the document's file, in order; none for JSON, which has none.

    A `#` inside a quoted, block or plain scalar is no comment. In a file with a syntax error, the comments
    before it.
    """
    text = document.text
    if document.syntax == "json" or "#" not in text:
        return ()
    spans, stop = _scalar_spans(text)
    lines = Lines(text)
    found: list[Comment] = []
    position = 0
    for start, end in [*spans, (stop, stop)]:
        while (mark := text.find("#", position, start)) >= 0:
            position = _REST_OF_LINE.match(text, mark).end()  # type: ignore[union-attr]
            found.append(_comment(text, mark, position, lines))
        position = max(position, end)
    return tuple(found)


def _comment(text: str, start: int, end: int, lines: Lines) -> Comment:
    span = lines.span(start, end)
    before = text[start - span.column + 1 : start]
    return Comment(text[start + 1 : end].strip(), span, not before.strip(" \t"))


def _scalar_spans(text: str) -> tuple[list[tuple[int, int]], int]:
    """The parts of the text that are scalars, and where reading stopped."""
    spans: list[tuple[int, int]] = []
    try:
        get = Parser(text).get_event
        while (event := get()) is not None:
            if event.__class__ is ScalarEvent:
                start, end = event.start_mark.index, event.end_mark.index
                if event.style in ("|", ">"):
                    start = _body(text, start)
                spans.append((start, end))
    except YAMLError:
        return spans, spans[-1][1] if spans else 0
    return spans, len(text)


def _body(text: str, start: int) -> int:
    """Where a block scalar's text begins: behind its header line, which may carry a comment."""
    header = text.index("|", start) if "|" in text[start : start + 1] else start
    return _REST_OF_LINE.match(text, header).end()  # type: ignore[union-attr]
