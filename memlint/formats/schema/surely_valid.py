"""Says of most valid values that they are valid; of all others it is not sure, and jsonschema-rs is asked.

Loading jsonschema-rs and compiling a schema takes an eighth of a start (56 M of 478 M instructions, counted as
`benchmarks/speed/linters.py` does). Most files are valid, and for these a start does without the library. What it is
not sure of costs time and never an answer: a test compares the two on schemas and values of every kind.

Keywords mean what JSON Schema 2020-12 says: https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from memlint.formats.schema.refs import Schema, follow

_TYPES: Mapping[str, tuple[type, ...]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "string": (str,),
    "integer": (int,),  # of 4.0, an integer in JSON, this is not sure
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
}
_LARGEST = 2**53  # beyond it, JSON readers differ
# Applied by `_is_content_valid`, or annotations.
_NO_CONDITIONS = frozenset(
    ("properties", "additionalProperties", "items", "$defs", "$schema", "$id")
    + ("title", "description", "default", "examples", "deprecated")
)


# Scalars that schemas accepted: most files say what others say. An entry keeps the schemas that its key names by id.
_ACCEPTED: dict[tuple[int, int, type, Any], tuple[Schema, Any]] = {}
_MOST_ACCEPTED = 4096
_SCALARS = frozenset((bool, int, float, str, type(None)))


def surely_valid(root: Schema, schema: Any, value: Any) -> bool:
    """Whether `schema`, a part of `root`, surely accepts a value. Raises RecursionError where one is nested deeply."""
    kind = type(value)
    if kind not in _SCALARS:
        return _is_accepted(root, schema, value)
    key = id(root), id(schema), kind, value
    if key in _ACCEPTED:
        return True
    if not _is_accepted(root, schema, value):
        return False
    if len(_ACCEPTED) >= _MOST_ACCEPTED:
        _ACCEPTED.clear()
    _ACCEPTED[key] = root, schema
    return True


def _is_accepted(root: Schema, schema: Any, value: Any) -> bool:
    if isinstance(schema, bool):
        schema = {} if schema else {"enum": ()}
    return _is_content_valid(root, schema, value) and all(
        _holds(root, keyword, wanted, value) for keyword, wanted in schema.items()
    )


def _is_content_valid(root: Schema, schema: Schema, value: Any) -> bool:
    """Whether JSON can hold a value, and what is in it is valid."""
    kind = type(value)
    if kind is dict:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        return all(_is_text(key) and surely_valid(root, known.get(key, others), one) for key, one in value.items())
    if kind is list:
        return all(surely_valid(root, schema.get("items", True), one) for one in value)
    if kind in _TYPES["number"]:
        return bool(abs(value) < _LARGEST)  # neither is NaN or infinity
    return value is None or kind is bool or _is_text(value)


def _is_text(value: Any) -> bool:
    """Whether a value is text without lone surrogates."""
    return isinstance(value, str) and (value.isascii() or value.isprintable())


def _holds(root: Schema, keyword: str, wanted: Any, value: Any) -> bool:
    if keyword in _NO_CONDITIONS or keyword.startswith("x-memlint-"):
        return True
    if keyword == "$ref":
        target = follow({"$ref": wanted}, root)
        return "$ref" not in target and surely_valid(root, target, value)
    if keyword == "anyOf":
        return any(surely_valid(root, branch, value) for branch in wanted)
    return keyword in _CONDITIONS and _CONDITIONS[keyword](wanted, value)


def _is_of_type(wanted: Any, value: Any) -> bool:
    names = (wanted,) if isinstance(wanted, str) else wanted
    return any(type(value) in _TYPES[name] for name in names)


def _is_one_of(wanted: Any, value: Any) -> bool:
    """Whether `value` is one of these, by type as well: True is not 1."""
    return any(type(one) is type(value) and one == value for one in wanted)


def _matches(wanted: str, value: Any) -> bool:
    """Whether a text meets a pattern. ECMA's `$` is no end of a line, which Python's is."""
    return type(value) is not str or ("\n" not in value and bool(re.search(wanted, value)))


def _number(value: Any) -> bool:
    return type(value) in _TYPES["number"]


# Whether a value meets a keyword's condition. Most speak of numbers, of lists or of mappings alone.
_CONDITIONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "type": _is_of_type,
    "enum": _is_one_of,
    "const": lambda wanted, value: _is_one_of((wanted,), value),
    "minimum": lambda wanted, value: not _number(value) or value >= wanted,
    "maximum": lambda wanted, value: not _number(value) or value <= wanted,
    "exclusiveMinimum": lambda wanted, value: not _number(value) or value > wanted,
    "exclusiveMaximum": lambda wanted, value: not _number(value) or value < wanted,
    "pattern": _matches,
    "minItems": lambda wanted, value: type(value) is not list or len(value) >= wanted,
    "maxItems": lambda wanted, value: type(value) is not list or len(value) <= wanted,
    "required": lambda wanted, value: type(value) is not dict or all(key in value for key in wanted),
}
