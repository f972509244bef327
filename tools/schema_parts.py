"""Parts that the schema generators share: JSON Schema for a Python annotation, and the file's frame."""

from __future__ import annotations

import enum
import json
import types
import typing
from pathlib import Path
from typing import Any

Schema = dict[str, Any]
SCHEMAS = Path(__file__).parent.parent / "schemas"

_PLAIN = {int: "integer", float: "number", bool: "boolean", str: "string", Path: "string", type(None): "null"}


def of_annotation(annotation: Any) -> Schema:
    """The schema of a dataclass or pydantic field's type: what the framework takes from a YAML or JSON file."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in _PLAIN:
        return {"type": _PLAIN[annotation]}
    if origin is typing.Literal:
        return {"enum": list(args)}
    if origin in (typing.Union, types.UnionType):
        return any_of([of_annotation(arg) for arg in args])
    if origin is list:
        return {"type": "array", "items": of_annotation(args[0])}
    if annotation is list:
        return {"type": "array"}
    if origin is dict or annotation is dict:
        return {"type": "object"}
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return {"enum": [member.value for member in annotation]}
    return {}


def any_of(parts: list[Schema]) -> Schema:
    """One schema for several alternatives; plain types are merged into one `type` list."""
    if any(part == {} for part in parts):
        return {}
    plain = [kind for part in parts if set(part) == {"type"} for kind in kinds_of(part)]
    rest = [part for part in parts if set(part) != {"type"}]
    merged = [{"type": plain[0] if len(plain) == 1 else plain}] if plain else []
    alternatives = rest + merged
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def kinds_of(schema: Schema) -> list[str]:
    """The names in `type`, which may be one or a list."""
    return [schema["type"]] if isinstance(schema["type"], str) else list(schema["type"])


def default_of(value: Any) -> Schema:
    """`{"default": value}` where JSON can say it, else nothing."""
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, (bool, int, float, str, list, dict)):
        try:
            return {"default": json.loads(json.dumps(value))}
        except (TypeError, ValueError):
            return {}
    return {}


def write(name: str, schema: Schema) -> None:
    """Write schemas/NAME, readable and with a stable order."""
    text = json.dumps(schema, indent=1, ensure_ascii=False)
    (SCHEMAS / name).write_text(text + "\n", encoding="utf-8")
    print(f"schemas/{name}: {len(schema.get('properties', {}))} keys")
