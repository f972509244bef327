"""Values that a command's argument parser refuses, where every value of a file becomes a word of a command first.

transformers' HfArgumentParser (5.23.0 hf_argparser.py): a field's type is called with the word, a switch takes the
words of `string_to_bool`, a `Literal` the words of its choices; a list gives several words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.fields import interpolated

_SWITCH = frozenset({"yes", "true", "t", "y", "1", "no", "false", "f", "n", "0"})
_WANTS = {"integer": "a whole number", "number": "a number", "boolean": "true or false"}


def refused_value(value: Any, schema: Mapping[str, Any]) -> str:
    """What a key with this schema wants, in words, where the parser takes no such `value`; "" where it does. Nothing is
    said of placeholders, of mappings, and of a value that the file leaves out (null)."""
    choices = [part for part in _alternatives(schema) if part.get("type") != "null"]
    words = value if isinstance(value, list) else [value]
    if not choices or value is None or isinstance(value, dict):
        return ""
    for word in words:
        if word is None or isinstance(word, (dict, list)) or interpolated(word) or _is_to_fill_in(word):
            return ""
        if not any(_takes(word, part) for part in choices):
            return " or ".join(dict.fromkeys(map(_wanted, choices)))
    return ""


def _is_to_fill_in(word: Any) -> bool:
    """Whether somebody is to write the value, as in an example: `<num-labels>`."""
    return isinstance(word, str) and word.startswith("<") and word.endswith(">")


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _alternatives(part)
    elif schema.get("type") == "array":
        yield from _alternatives(schema.get("items", {}))
    elif isinstance(schema.get("type"), list):
        yield from ({**schema, "type": one} for one in schema["type"])
    else:
        yield schema


def _takes(word: Any, schema: Mapping[str, Any]) -> bool:
    text = str(word)
    if "enum" in schema:
        return text in map(str, schema["enum"])
    kind = schema.get("type")
    if kind == "boolean":
        return text.lower() in _SWITCH
    if kind in ("integer", "number"):
        return _converts(text, int if kind == "integer" else float)
    return True


def _converts(text: str, kind: type[int] | type[float]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _wanted(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"] if one is not None)
    return _WANTS.get(str(schema.get("type")), "another value")
