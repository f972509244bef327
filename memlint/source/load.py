"""Parses bytes to documents, and reads a document again in another dialect."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from memlint.identity_cache import IdentityCache
from memlint.source import yaml
from memlint.source.document import Document, Problem
from memlint.source.encoding import DECODING, Decoded, decode
from memlint.source.layout import Entry, Places, PlainScalars, raw
from memlint.source.lines import Lines
from memlint.source.scalars import ALIKE_BUT_IN_NUMBERS, NUMERIC_START, RESOLVERS, ScalarProblem
from memlint.source.tree import Tree, failed

_SYNTAXES = {".json": "json", ".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}


def load(data: bytes, path: str, syntax: str | None = None, dialect: str = "yaml11") -> tuple[Document, ...]:
    """The documents of a file: at least one, and one only for JSON and TOML. Never raises on any bytes.

    What is wrong is in `Document.problems`; after a fatal problem the value is None. `syntax` is yaml, json
    or toml, by default from the file name, else from the content. JSON and TOML are always read in the dialect `json`.
    """
    decoded = decode(data)
    syntax = syntax or _syntax(path, decoded.text)
    return _documents(decoded, path, syntax, "json" if syntax in ("json", "toml") else dialect)


# These caches are for changed texts: the edit that makes one, the laws that test it, its check, and the edits of other
# plans that begin in the same way all read it.
load_changed = lru_cache(maxsize=16)(load)
_IN_DIALECT = IdentityCache(16)  # the names of dialects are few and always the same objects


def in_dialect(document: Document, dialect: str) -> Document:
    """The document as `load` would return it in `dialect`; the same object for the same one."""
    if document.syntax != "yaml" or dialect == document.dialect:
        return document
    found: Document | None = _IN_DIALECT.get(document, dialect)
    if found is None:
        found = _with_new_scalars(document, dialect) or _reloaded(document, dialect)
        _IN_DIALECT.put(found, document, dialect)
    return found


def _syntax(path: str, text: str) -> str:
    for suffix, syntax in _SYNTAXES.items():
        if path.endswith(suffix):
            return syntax
    start = text.lstrip(" \t\r\n")
    return "json" if start.startswith("{") and start[1:].lstrip(" \t\r\n").startswith(('"', "}")) else "yaml"


def _documents(decoded: Decoded, path: str, syntax: str, dialect: str) -> tuple[Document, ...]:
    lines = Lines(decoded.text)
    trees = _or_conflict(_trees(decoded, syntax, dialect, lines), decoded.text, lines)
    file_problems = decoded.problems + _json_bom(decoded, syntax)
    return tuple(
        Document(
            path,
            decoded.text,
            syntax,
            dialect,
            tree.value,
            Places(tree.root, lines),
            file_problems + tree.problems if index == 0 else tree.problems,
            index,
            len(trees),
            decoded.encoding,
            decoded.bom,
            decoded.newline,
            PlainScalars(tree.root, decoded.text, tree.value, tree.must_reload),
            tree.aliases,
        )
        for index, tree in enumerate(trees)
    )


def _trees(decoded: Decoded, syntax: str, dialect: str, lines: Lines) -> list[Tree]:
    if any(problem.fatal for problem in decoded.problems):
        return [failed(())]
    if syntax == "json":
        from memlint.source import json  # most configs are YAML

        return [json.tree(decoded.text, lines)]
    if syntax == "toml":
        from memlint.source import toml  # as above

        return [toml.tree(decoded.text, lines)]
    return list(yaml.trees(decoded.text, dialect, lines)) or [failed(())]


# What git writes where two sides of a merge changed the same lines.
_CONFLICT = r"^<{7} .*$"


def _or_conflict(trees: list[Tree], text: str, lines: Lines) -> list[Tree]:
    """The trees of a text; of one that cannot be read, and that a merge left with both sides, the one problem."""
    if not any(problem.fatal for tree in trees for problem in tree.problems):
        return trees
    marker = re.search(_CONFLICT, text, re.MULTILINE)
    if marker is None:
        return trees
    message = "a merge conflict; keep one side, and delete the lines with <<<<<<<, ======= and >>>>>>>"
    return [failed((Problem("syntax", message, lines.span(*marker.span()), fatal=True),))]


def _json_bom(decoded: Decoded, syntax: str) -> tuple[Problem, ...]:
    if syntax != "json" or not decoded.bom or decoded.encoding != "utf-8":
        return ()
    message = "a byte order mark, which Python's json refuses; save the file as UTF-8 without it"
    return (Problem("json-bom", message, Lines("").span(0, 0)),)


def _reloaded(document: Document, dialect: str) -> Document:
    undecodable = tuple(problem for problem in document.problems if problem.code in DECODING)
    decoded = Decoded(document.text, document.encoding, document.bom, document.newline, undecodable)
    documents = _documents(decoded, document.path, document.syntax, dialect)
    # A fatal problem in an earlier document ends the stream, so that there may be fewer documents now.
    return documents[min(document.index, len(documents) - 1)]


def _with_new_scalars(document: Document, dialect: str) -> Document | None:
    """The document with its plain scalars read again; None if keys, aliases or problems may change, too."""
    plain, places = document.plain, document.places
    if not isinstance(plain, PlainScalars) or not isinstance(places, Places) or plain.must_reload or document.problems:
        return None
    try:
        value = _with_scalars_resolved(plain.root, document.value, document.text, document.dialect, dialect)
    except ScalarProblem:
        return None
    if value is _MUST_RELOAD:
        return None
    return document._replace(dialect=dialect, value=value, plain=PlainScalars(plain.root, document.text, value, False))


_MUST_RELOAD = object()
# A key with such a first character, or one of these words, may have another value in another dialect.
_AMBIGUOUS_START = frozenset("+-.0123456789~=<")
_AMBIGUOUS_WORDS = frozenset(
    spelling
    for word in ("true", "false", "yes", "no", "on", "off", "null")
    for spelling in (word, word.title(), word.upper())
)


def _with_scalars_resolved(root: Entry, value: Any, text: str, before: str, dialect: str) -> Any:
    """A copy of `value`, as the dialect `before` has it, in which plain scalars are resolved again: all of them, or
    those that the dialects may read differently."""
    resolve, numbers_alone = RESOLVERS[dialect], ALIKE_BUT_IN_NUMBERS.issuperset((before, dialect))
    result: list[Any] = []
    pending: list[tuple[Any, Any, Any, Any]] = [(result, None, root, value)]
    for target, key, entry, old in pending:  # grows while it is read
        below = entry[5]
        if below is None:
            start = entry[2]
            is_read_again = entry[4] and (not numbers_alone or text[start : start + 1] in NUMERIC_START)
            new = resolve(raw(entry, old, text)) if is_read_again else old
        elif isinstance(below, list):
            new = []
            pending += [(new, None, child, item) for child, item in zip(below, old)]
        else:
            new = {}
            for name, child in below.items():
                if not isinstance(name, str) or not name or name[0] in _AMBIGUOUS_START or name in _AMBIGUOUS_WORDS:
                    return _MUST_RELOAD
                pending.append((new, name, child, old[name]))
        if isinstance(target, list):
            target.append(new)
        else:
            target[key] = new
    return result[0]
