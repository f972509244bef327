"""Local references of a JSON Schema, followed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Schema = Mapping[str, Any]


def follow(schema: Any, root: Schema) -> Any:
    """`schema`, or what its local `$ref` points at (chains are followed; unknown references stay)."""
    for _ in range(8):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str) or not reference.startswith("#/"):
            break
        target: Any = root
        for part in reference[2:].split("/"):
            target = target.get(part) if isinstance(target, dict) else None
        if target is None:
            break
        schema = target
    return schema
