"""A JSON Schema as it was read: its local references, the part that answers for a place, releases in annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.source.document import Path

Schema = Mapping[str, Any]
MAX_ISSUES = 50  # of one file


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


class CompiledSchema(NamedTuple):
    root: Schema
    schema: Schema


def subschema(compiled: CompiledSchema, pointer: Path) -> Schema:
    """The part of the schema that answers for the value at `pointer`; {} where nothing does."""
    schema: Any = follow(compiled.schema, compiled.root)
    for step in pointer:
        schema = _step(schema, step, compiled.root)
    return schema if isinstance(schema, dict) else {}


def _step(schema: Any, step: str | int, root: Schema) -> Any:
    if not isinstance(schema, dict):
        return {}
    for part in (schema, *(follow(branch, root) for branch in schema.get("anyOf", ()))):
        below = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
        if below is None and isinstance(step, str):
            below = part.get("additionalProperties")
        if isinstance(below, dict):
            return follow(below, root)
    return {}


def is_outdated(schema: Schema, value: Any, versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a key of this schema, or its value, is gone or renamed since, and may be so in the versions in use."""
    if "x-memlint-removed-values" not in schema:
        return not still_there(schema.get("x-memlint-removed-in", ""), versions) and not is_inert(
            schema, value, versions
        )
    key_is_gone = "x-memlint-removed-in" in schema and not still_there(schema["x-memlint-removed-in"], versions)
    return key_is_gone or is_removed_value(schema, value, versions)


def is_inert(schema: Schema, value: Any, versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether a key that is gone holds its default, or switches off what is gone: older releases read nothing from it.
    Where the release is stated, and newer, the key itself may be refused."""
    removed = schema.get("x-memlint-removed-in", "")
    if "x-memlint-renamed-to" in schema or not removed or removed.partition(" ")[0] in versions:
        return False
    if "default" in schema:
        return bool(value == schema["default"] and type(value) is type(schema["default"]))
    return value is None or value is False or (isinstance(value, dict) and value.get("enabled") is False)


def is_removed_value(schema: Schema, value: Any, versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether newer versions than those that are known to be in use do not have this value of the key."""
    removed = schema.get("x-memlint-removed-values", {}).get(value, "") if isinstance(value, str) else ""
    return bool(removed) and not still_there(removed, versions)


def release_note(schema: Schema) -> str:
    """When a key came and went, as the description of one that has no other: "Since transformers 4.46."."""
    notes = (("Since", "since"), ("Removed in", "removed-in"), ("Now called", "renamed-to"))
    told = ((words, schema.get(f"x-memlint-{name}")) for words, name in notes)
    return " ".join(f"{words} {release}." for words, release in told if isinstance(release, str))


def still_there(removed: str, versions: Mapping[str, tuple[int, ...]]) -> bool:
    """Whether the version in use is known to be older than the one that removed something."""
    framework, _, version = removed.partition(" ")
    used = versions.get(framework)
    return bool(used) and bool(_version(version)) and tuple(used or ()) < _version(version)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
