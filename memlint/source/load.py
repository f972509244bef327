"""Bytes to documents, and one document to another dialect."""

from __future__ import annotations

from typing import Any

from memlint.source import yaml
from memlint.source.document import Document, Problem
from memlint.source.encoding import DECODING, Decoded, decode
from memlint.source.layout import Entry, Places, Plain, raw
from memlint.source.lines import Lines
from memlint.source.scalars import RESOLVERS, ScalarProblem
from memlint.source.tree import Tree, failed

_SYNTAXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml"}


def load(data: bytes, path: str, syntax: str | None = None, dialect: str = "yaml11") -> tuple[Document, ...]:
    """The documents of a file: at least one, and one only for JSON. Never raises on any bytes.

    What is wrong is in `Document.problems`; after a fatal problem the value is None. `syntax` is yaml or json,
    by default what the file name says, else the content. JSON is always read in the dialect `json`.
    """
    decoded = decode(data)
    syntax = syntax or _syntax(path, decoded.text)
    return _documents(decoded, path, syntax, "json" if syntax == "json" else dialect)


def redialect(document: Document, dialect: str) -> Document:
    """The same document as `load` would give it in `dialect`."""
    if document.syntax == "json" or dialect == document.dialect:
        return document
    return _patched(document, dialect) or _reloaded(document, dialect)


def _syntax(path: str, text: str) -> str:
    for suffix, syntax in _SYNTAXES.items():
        if path.endswith(suffix):
            return syntax
    start = text.lstrip(" \t\r\n")
    return "json" if start.startswith("{") and start[1:].lstrip(" \t\r\n").startswith(('"', "}")) else "yaml"


def _documents(decoded: Decoded, path: str, syntax: str, dialect: str) -> tuple[Document, ...]:
    lines = Lines(decoded.text)
    found = _trees(decoded, syntax, dialect, lines)
    before = decoded.problems + _json_bom(decoded, syntax)
    return tuple(
        Document(
            path,
            decoded.text,
            syntax,
            dialect,
            one.value,
            Places(one.root, lines),
            before + one.problems if index == 0 else one.problems,
            index,
            len(found),
            decoded.encoding,
            decoded.bom,
            decoded.newline,
            Plain(one.root, decoded.text, one.value, one.fixed),
            one.aliases,
        )
        for index, one in enumerate(found)
    )


def _trees(decoded: Decoded, syntax: str, dialect: str, lines: Lines) -> list[Tree]:
    if any(problem.fatal for problem in decoded.problems):
        return [failed(())]
    if syntax == "json":
        from memlint.source import json  # most configs are YAML

        return [json.tree(decoded.text, lines)]
    return list(yaml.trees(decoded.text, dialect, lines)) or [failed(())]


def _json_bom(decoded: Decoded, syntax: str) -> tuple[Problem, ...]:
    if syntax != "json" or not decoded.bom or decoded.encoding != "utf-8":
        return ()
    message = "a byte order mark, which Python's json refuses; save the file as UTF-8 without it"
    return (Problem("json-bom", message, Lines("").span(0, 0)),)


def _reloaded(document: Document, dialect: str) -> Document:
    undecodable = tuple(problem for problem in document.problems if problem.code in DECODING)
    decoded = Decoded(document.text, document.encoding, document.bom, document.newline, undecodable)
    documents = _documents(decoded, document.path, document.syntax, dialect)
    # What this dialect refuses in an earlier document ends the stream there.
    return documents[min(document.index, len(documents) - 1)]


def _patched(document: Document, dialect: str) -> Document | None:
    """The document with its plain scalars read again; None where keys, aliases or problems may change with it."""
    plain, places = document.plain, document.places
    if not isinstance(plain, Plain) or not isinstance(places, Places) or plain.fixed or document.problems:
        return None
    try:
        value = _resolved(plain.root, document.value, document.text, dialect)
    except ScalarProblem:
        return None
    if value is _UNSURE:
        return None
    return document._replace(dialect=dialect, value=value, plain=Plain(plain.root, document.text, value, False))


_UNSURE = object()
# A key that starts so, or is one of these words, may be read differently by another dialect.
_UNSURE_START = frozenset("+-.0123456789~=<")
_UNSURE_WORDS = frozenset(
    spelling
    for word in ("true", "false", "yes", "no", "on", "off", "null")
    for spelling in (word, word.title(), word.upper())
)


def _resolved(root: Entry, value: Any, text: str, dialect: str) -> Any:
    """A copy of `value` in which every plain scalar is resolved again."""
    resolve = RESOLVERS[dialect]
    result: list[Any] = []
    pending: list[tuple[Any, Any, Any, Any]] = [(result, None, root, value)]
    for target, key, entry, old in pending:  # grows while it is read
        below = entry[5]
        if below is None:
            new = resolve(raw(entry, old, text)) if entry[4] else old
        elif below.__class__ is list:
            new = []
            pending += [(new, None, child, item) for child, item in zip(below, old)]
        else:
            new = {}
            for name, child in below.items():
                if name.__class__ is not str or not name or name[0] in _UNSURE_START or name in _UNSURE_WORDS:
                    return _UNSURE
                pending.append((new, name, child, old[name]))
        if target.__class__ is list:
            target.append(new)
        else:
            target[key] = new
    return result[0]
