"""Finds a character of a YAML value in its file, where quoting and folding have moved it."""

from __future__ import annotations

from memlint.source.document import Document, Path, place


def locate_key(document: Document, path: Path) -> tuple[int, int]:
    """Line and column of the key at `path`; of the value if it has no key."""
    found = place(document, path)
    return (found.key.line, found.key.column) if found is not None and found.key is not None else locate(document, path)


def locate(document: Document, path: Path, offset: int = 0) -> tuple[int, int]:
    """Line and column (1-based) of character `offset` of the text at `path`.

    YAML only adds or drops white space, quotes and a block's header, so the place is found by counting the other
    characters. (1, 1) if the document has no such value.
    """
    found = place(document, path)
    value = _at(document.value, path)
    if found is None:
        return 1, 1
    start = found.value.start
    raw = document.text[start : found.value.end]
    if isinstance(value, str):
        start += _offset_in(raw, value, offset)
    return _line_column(document.text, start)


def _at(value: object, path: Path) -> object:
    for key in path:
        if not isinstance(value, (dict, list)):
            break
        items = value if isinstance(value, dict) else dict(enumerate(value))
        value = items.get(key)
    return value


def _offset_in(raw: str, value: str, offset: int) -> int:
    skipped = _head(raw)
    wanted = sum(1 for character in value[:offset] if not character.isspace())
    for place_, character in enumerate(raw[skipped:], skipped):
        if character.isspace():
            continue
        if wanted == 0:
            return place_
        wanted -= 1
    return len(raw)


def _head(raw: str) -> int:
    """Characters before the text itself: a quote, or the header line of a block."""
    if raw[:1] in ("|", ">"):
        return raw.find("\n") + 1
    return 1 if raw[:1] in ("'", '"') else 0


def _line_column(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
