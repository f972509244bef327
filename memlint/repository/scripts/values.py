"""Converts arguments to values, by the types of the program's own parser."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from memlint.source.shell.text import Word

_TRUE = {**dict.fromkeys(("true", "yes", "t", "y", "1"), True), **dict.fromkeys(("false", "no", "f", "n", "0"), False)}
_WHOLE = re.compile(r"[+-]?\d+")
MOST_LETTERS = 10_000  # of an argument that holds JSON


def types_of(schema: Mapping[str, Any] | None) -> frozenset[str]:
    """The JSON types that a key's schema allows; none if the schema does not state any."""
    if schema is None:
        return frozenset()
    own = schema.get("type", ())
    found = {own} if isinstance(own, str) else set(own)
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= types_of(one)
    for value in schema.get("enum", ()):
        found.add(_TYPE_NAMES.get(type(value), "string"))
    return frozenset(found)


_TYPE_NAMES = {bool: "boolean", int: "integer", float: "number", type(None): "null"}


def value_of(words: tuple[Word, ...], types: frozenset[str]) -> Any:
    """The value of the words after a flag: True for none, a list for several."""
    if not words:
        return True
    if len(words) > 1 and (types - {"null"}) <= {"boolean", "integer", "number"} and types:
        words = words[:1]
    if len(words) > 1:
        return [scalar(one, types & {"integer", "number", "string"}) for one in words]
    is_list = "array" in types and not types & {"string", "object"}
    found = scalar(words[0], frozenset() if is_list else types)
    return [found] if is_list and not isinstance(found, list) else found


def scalar(word: Word, types: frozenset[str]) -> Any:
    """The value of one word. An unknown word becomes a placeholder, `${NAME}`."""
    if word.unknown:
        return placeholder(word)
    text = word.text
    if (not types or types & {"object", "array"}) and text[:1] in ("{", "["):
        return _structure(text)
    if "boolean" in types and text.lower() in _TRUE and not (types & {"integer", "number"} and text.isdigit()):
        return _TRUE[text.lower()] if text.lower() in ("true", "false") or "string" not in types else text
    if not types and text == "null":
        return None
    if not types and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not types or types & {"integer", "number"}:
        return _number(text)
    return text


def placeholder(word: Word) -> str:
    """The word with `${...}` in place of its unknown parts."""
    parts = []
    for piece in word.pieces:
        is_plain = not piece.unknown or piece.text.startswith("${")
        parts.append(piece.text if is_plain else f"${{{re.sub(r'[${}]', '', piece.text) or '...'}}}")
    return "".join(parts)


def _number(text: str) -> Any:
    if _WHOLE.fullmatch(text):
        return int(text) if len(text) < 19 else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if text.lower().strip("+-") not in ("nan", "inf", "infinity") and "_" not in text else text


def _structure(text: str) -> Any:
    """A mapping or a list, as JSON or as Python writes it."""
    if len(text) > MOST_LETTERS or text.count("[") + text.count("{") > 100:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return json.loads(json.dumps(found)) if isinstance(found, (dict, list)) and _is_plain(found) else text


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (str, int, float, bool))


def has_known_name(word: Word) -> bool:
    """Whether the last part of an unknown path is known, as in `$ROOT/models/Qwen2.5-7B`, or with a slash behind it."""
    last = word.pieces[-1] if word.pieces else None  # `model.path=` is followed by nothing
    return last is not None and not last.unknown and bool(last.text.rstrip("/").rpartition("/")[2] and "/" in last.text)
