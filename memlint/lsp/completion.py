"""Completes keys and values of the framework whose file is being edited.

While a key is typed the file cannot be parsed. So the place of the cursor is found in the text: by indentation in YAML,
by brackets in JSON. The framework is that of the last text that could be parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lsprotocol import types

from memlint._record import NamedTuple
from memlint.formats.base import Format
from memlint.lsp.keys import KeyFacts, as_written, default_in_force, keys_at, stack_versions
from memlint.run import Run
from memlint.source.document import Path
from memlint.source.suffixes import SHELL

_YAML_KEY = re.compile(r"(?P<indent> *)(?P<dash>(?:- +)*)(?P<word>[\w.-]*)$")
_YAML_VALUE = re.compile(r"(?P<indent> *)(?:- +)*(?P<key>[\w.-]+): +(?P<word>[^\s#]*)$")
_YAML_PARENT = re.compile(r"(?P<indent> *)(?P<dash>(?:- +)*)(?P<key>[\w.-]+):\s*(?:#.*)?$")
_YAML_SIBLING = re.compile(r"(?P<indent> *)(?P<key>[\w.-]+):(?:\s|$)")
_FLAG = re.compile(r"(?:^|\s)--(?P<word>[\w-]*)$")
MOST_LINES = 2_000  # lines of YAML above the cursor that are searched for the sections around it
MOST_LETTERS = 200_000  # characters of JSON before the cursor that are searched


class Cursor(NamedTuple):
    """What is being typed: a key of the section at `pointer` (then `key` is ""), or the value of `key` there.

    `word`: the part typed so far. `siblings`: the keys that the section has. `syntax`: yaml, json, shell.
    """

    syntax: str
    pointer: Path
    word: str = ""
    key: str = ""
    siblings: frozenset[str] = frozenset()
    is_quoted: bool = False


class KeySource(NamedTuple):
    """The framework whose keys are offered, and the run whose releases decide which of them exist."""

    format: Format
    run: Run | None = None


def cursor(path: str, text: str, offset: int) -> Cursor | None:
    """What is being typed at `offset`; None if neither a key nor a value may stand there."""
    before = text[:offset]
    if path.endswith((".yaml", ".yml")):
        return _in_yaml(before, text[offset:])
    if path.endswith(".json"):
        return _in_json(before[-MOST_LETTERS:])
    if path.endswith(SHELL):
        flag = _FLAG.search(before.rpartition("\n")[2])
        return Cursor("shell", (), flag["word"].replace("-", "_")) if flag else None
    return None


def _in_yaml(before: str, after: str) -> Cursor | None:
    *above, line = before.split("\n")[-MOST_LINES:]
    value = _YAML_VALUE.match(line)
    if value is not None:
        pointer = _yaml_parents(above, len(value["indent"]))
        return None if pointer is None else Cursor("yaml", pointer, value["word"], value["key"])
    key = _YAML_KEY.match(line)
    if key is None:
        return None
    indent = len(key["indent"]) + len(key["dash"])
    pointer = _yaml_parents(above, indent)
    if pointer is None:
        return None
    around = [*_siblings(reversed(above), indent), *_siblings(iter(after.split("\n")[1:MOST_LINES]), indent)]
    return Cursor("yaml", pointer, key["word"], siblings=frozenset(around))


def _yaml_parents(above: list[str], indent: int) -> Path | None:
    """The keys of the sections around a line with this indentation; None if it is not in a mapping (a block scalar)."""
    found: list[str | int] = []
    for line in reversed(above):
        content = line.lstrip(" ")
        own = len(line) - len(content)
        if not content.strip() or content.startswith("#") or own >= indent:
            continue
        parent = _YAML_PARENT.match(line)
        if parent is None:
            return None
        found.append(parent["key"])
        indent = own
        if indent == 0:
            break
    return tuple(reversed(found)) if indent == 0 or not found else None


def _siblings(lines: Iterator[str], indent: int) -> Iterator[str]:
    """The keys with this indentation, up to the end of their section."""
    for line in lines:
        content = line.lstrip(" ")
        own = len(line) - len(content)
        if not content.strip() or content.startswith("#"):
            continue
        if own < indent:
            return
        found = _YAML_SIBLING.match(line)
        if own == indent and found is not None:
            yield found["key"]


def _in_json(before: str) -> Cursor | None:
    """Walks the text up to the cursor: a stack of open sections, the key that each is the value of."""
    stack: list[tuple[str, str]] = []  # (bracket, key)
    keys: list[set[str]] = [set()]
    key, text, is_value = "", "", False
    position, end = 0, len(before)
    while position < end:
        letter = before[position]
        if letter == '"':
            start = position + 1
            position = start
            while position < end and before[position] != '"':
                position += 2 if before[position] == "\\" else 1
            text = before[start:position]
            if position >= end:
                return _json_cursor(stack, keys[-1], key if is_value else "", text, is_quoted=True)
            if not is_value:
                key = text
                keys[-1].add(key)
        elif letter == ":":
            is_value = True
        elif letter in "{[":
            stack.append((letter, key))
            keys.append(set())
            key, is_value = "", letter == "["
        elif letter in "}]" and stack:
            stack.pop()
            keys.pop()
            is_value = False
        elif letter == ",":
            key, is_value = "", bool(stack) and stack[-1][0] == "["
        position += 1
    word = re.search(r"[\w.+-]*$", before)
    typed = word[0] if word else ""
    return _json_cursor(stack, keys[-1], key, typed, is_quoted=False) if is_value and key else None


def _json_cursor(stack: list[tuple[str, str]], keys: set[str], key: str, word: str, is_quoted: bool) -> Cursor | None:
    if not stack or any(bracket == "[" for bracket, _ in stack):
        return None
    pointer = tuple(name for _, name in stack[1:])
    return Cursor("json", pointer, word, key, frozenset(keys), is_quoted)


def completions(at: Cursor, source: KeySource) -> Iterator[types.CompletionItem]:
    """The keys that the section may have and does not have yet, or the possible values of the key."""
    listed = keys_at(source.format.SCHEMA, at.pointer)
    if at.key:
        facts = listed.key(at.key)
        yield from _values(at, facts, _default(at, at.key, facts, source)) if facts is not None else ()
        return
    versions = stack_versions(source.run) if source.run is not None else {}
    for facts in listed.all():
        if facts.name not in at.siblings and facts.is_in_force(versions):
            yield _key_item(at, facts, _default(at, facts.name, facts, source))


def _default(at: Cursor, name: str, facts: KeyFacts, source: KeySource) -> str:
    """The default in the release in use, else that of the newest release."""
    full = ".".join(map(str, (*at.pointer, name)))
    in_force = default_in_force(source.format.NAME, full, source.run) if source.run is not None else ""
    return in_force or facts.default


def _key_item(at: Cursor, facts: KeyFacts, default: str) -> types.CompletionItem:
    text = {"yaml": f"{facts.name}: ", "json": facts.name}.get(at.syntax, f"{facts.name} ")
    return types.CompletionItem(
        facts.name,
        kind=types.CompletionItemKind.Property,
        detail=facts._replace(default=default).description() or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, facts.about) if facts.about else None,
        insert_text=text,
        sort_text=f"{0 if facts.about else 1}{facts.name}",  # keys that move memory first
    )


def _values(at: Cursor, facts: KeyFacts, default: str) -> Iterator[types.CompletionItem]:
    written = list(dict.fromkeys([*([default] if default else []), *map(as_written, facts.values)]))
    for number, value in enumerate(written):
        is_text = (
            at.syntax == "json" and not at.is_quoted and value in map(str, facts.values) and not _is_literal(value)
        )
        yield types.CompletionItem(
            value,
            kind=types.CompletionItemKind.Value,
            detail="default" if value == default else None,
            insert_text=f'"{value}"' if is_text else value,
            sort_text=f"{number:04}",
        )


def _is_literal(text: str) -> bool:
    return text in ("true", "false", "null") or re.fullmatch(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", text) is not None
