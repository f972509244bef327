"""The comments of a file: each `#` outside of its scalars, up to the end of the line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from memlint.identity_cache import IdentityCache
from memlint.source import yaml
from memlint.source.document import Comment, Document
from memlint.source.layout import Entry, Places, PlainScalars
from memlint.source.lines import Lines

MAX_COMMENTS = 20_000

_REST_OF_LINE = r"[^\r\n\x85\u2028\u2029]*"  # libyaml ends a comment at any of these
_REST_IN_ASCII = r"[^\r\n]*"  # the same where a text has none of the others; the other set takes a while to compile
_HEADER = rf"[|>]{_REST_OF_LINE}"
# A `#` in a quoted text of several words counts as a comment. TOML's comments are found so, too.
_SHELL_COMMENT = r"(?m)(?:^|(?<=[ \t]))#[^\r\n]*"


def comments(document: Document, word: str = "") -> tuple[Comment, ...]:
    """All comments of the document's file with `word` in them, in order; none for JSON, which has none.

    A `#` inside a quoted, block or plain scalar is no comment. In a file with a syntax error, the comments
    before it. At most the first `MAX_COMMENTS` are searched.
    """
    text, places = document.text, document.places
    lines = places.lines if isinstance(places, Places) else Lines(text)
    marks = _known_marks(document)
    return tuple(_comment(text, start, end, lines) for start, end in marks if text.find(word, start, end) >= 0)


def comment_texts(document: Document) -> list[str]:
    """The texts of all comments, in order, without their places."""
    text = document.text
    return [text[start + 1 : end].strip() for start, end in _known_marks(document)]


_MARKS = IdentityCache(16)  # by text and layout, which a document has in every dialect


def _known_marks(document: Document) -> list[tuple[int, int]]:
    """Where each of the first `MAX_COMMENTS` comments begins and ends."""
    key = document.text, document.places, document.path, document.syntax
    found: list[tuple[int, int]] | None = _MARKS.get(*key)
    return _MARKS.put(list(islice(_marks(document), MAX_COMMENTS)), *key) if found is None else found


def _marks(document: Document) -> Iterator[tuple[int, int]]:
    """Where each comment begins and ends."""
    text = document.text
    if document.syntax in ("shell", "toml") or document.path.endswith(".toml"):
        yield from ((found.start(), found.end()) for found in re.finditer(_SHELL_COMMENT, text))
        return
    if document.syntax == "python" and document.path.endswith((".py", ".ipynb")):
        yield from _in_python(text) if document.path.endswith(".py") else ()
        return
    mark = text.find("#") if document.syntax != "json" else -1
    if mark < 0:
        return
    spans, stop = _scalar_spans(document)
    rest_of_line = re.compile(_REST_IN_ASCII if text.isascii() else _REST_OF_LINE)
    position = 0
    for start, end in chain(spans, ((stop, stop),)):
        while 0 <= mark < start:
            if mark >= position:
                position = _end(rest_of_line.match(text, mark))
                yield mark, position
            mark = text.find("#", max(position, mark + 1))
        if mark < 0:
            return
        if end > position:
            position = end


def _in_python(text: str) -> Iterator[tuple[int, int]]:
    """The comments of a Python file; after a syntax error, those before it."""
    import io
    import tokenize  # with io: for Python files alone

    starts = Lines(text).starts()
    try:
        for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
            if token.type == tokenize.COMMENT:
                start = starts[token.start[0] - 1] + token.start[1]
                yield start, start + len(token.string)
    except (tokenize.TokenError, SyntaxError, IndexError):
        return


def _comment(text: str, start: int, end: int, lines: Lines) -> Comment:
    span = lines.span(start, end)
    before = text[start - span.column + 1 : start]
    return Comment(text[start + 1 : end].strip(), span, not before.strip(" \t"))


def _scalar_spans(document: Document) -> tuple[Iterable[tuple[int, int]], int]:
    """Start and end of each scalar in the text, and the offset where reading stopped."""
    plain, places = document.plain, document.places
    if (
        isinstance(plain, PlainScalars)
        and isinstance(places, Places)
        and not plain.must_reload
        and document.documents == 1
    ):
        return _known_spans(places.root, document.text), len(document.text)
    read, stop = yaml.scalar_spans(document.text)
    return [(_body(document.text, start) if is_block else start, end) for start, end, is_block in read], stop


def _known_spans(root: Entry, text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each scalar, from the layout of a document without merges, duplicates and problems."""
    pending = [root]
    while pending:
        key_start, key_end, start, end, plain, below = pending.pop()
        if key_start >= 0:
            yield key_start, key_end
        if below is None:
            yield (_body(text, start) if not plain and text[start] in "|>" else start), end
        else:
            pending += reversed(below.values() if isinstance(below, dict) else below)


def _body(text: str, start: int) -> int:
    """The start of a block scalar's text: after its header line, which may have a comment."""
    return _end(re.compile(_HEADER).search(text, start))


def _end(match: re.Match[str] | None) -> int:
    assert match is not None  # both patterns match wherever they are used
    return match.end()
