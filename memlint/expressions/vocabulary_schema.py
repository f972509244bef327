"""Types of the files' own keys, from the JSON Schemas of the config formats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.expressions import kinds as types
from memlint.expressions.kinds import Type, union
from memlint.formats.schema.refs import CompiledSchema, Schema, follow
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema

_KINDS = {
    "string": ("str",),
    "integer": ("int",),
    "number": ("int", "float"),
    "boolean": ("bool",),
    "null": ("null",),
    "array": ("list",),
    "object": ("map",),
}
_BRANCHES = ("anyOf", "oneOf", "allOf")
# Formats whose main file is also a companion of others: the keys of a DeepSpeed JSON alone are in both sections.
_SCHEMAS_OF_SECTION = {
    "deepspeed": ("deepspeed.json",),
    "accelerate": ("accelerate.json",),
    "fsdp": ("fsdp.json",),
}


class SchemaSection(NamedTuple):
    """A section of keys. `config` is described by the schemas of the rule's formats, each other one by one schema."""

    name: str
    formats: tuple[str, ...]


def key_type(section: SchemaSection, path: tuple[str, ...]) -> Type | None:
    """The type of a key; any type if there is no schema, None if no schema has the key."""
    schemas = list(_schemas(section))
    if not schemas:
        return types.ANY
    found: Type | None = None
    for root, parts in schemas:
        for part in _descend(root, parts, path):
            kind = _type(root, part)
            found = kind if found is None else union(found, kind)
    # A file may have `key:` without a value, whatever the schema allows.
    return found and found._replace(kinds=found.kinds | types.NULL.kinds)


def nearest_key(section: SchemaSection, path: tuple[str, ...]) -> str:
    """The most similar key, with its section; "" if none is similar."""
    for length in range(1, len(path) + 1):
        if key_type(section, path[:length]) is None:
            known = [key for root, parts in _schemas(section) for key in _keys(root, parts, path[: length - 1])]
            meant = nearest(path[length - 1], known)
            return ".".join((section.name, *path[: length - 1], meant)) if meant else ""
    return ""


def _schemas(section: SchemaSection) -> Iterator[tuple[Schema, list[Any]]]:
    names = _SCHEMAS_OF_SECTION.get(section.name) or tuple(f"{name}.json" for name in section.formats)
    for name in names:
        compiled = _schema(name)
        if compiled is not None:
            layouts = [part for part in compiled.root.get("$defs", {}).values() if "x-memlint-layout" in part]
            yield compiled.root, [compiled.schema, *layouts]


def _schema(name: str) -> CompiledSchema | None:
    try:
        return compiled_schema(name)
    except FileNotFoundError:
        return None


def _parts(root: Schema, schema: Any, depth: int = 0) -> Iterator[Schema]:
    """`schema` and its alternatives, references followed."""
    schema = follow(schema, root)
    if not isinstance(schema, dict) or depth > 8:
        return
    yield schema
    for word in _BRANCHES:
        for branch in schema.get(word, ()):
            yield from _parts(root, branch, depth + 1)


def _descend(root: Schema, schemas: list[Any], path: tuple[str, ...]) -> list[Any]:
    here = schemas
    for key in path:
        here = [below for schema in here for part in _parts(root, schema) for below in _below(part, key)]
    return here


def _below(part: Schema, key: str) -> Iterator[Any]:
    properties = part.get("properties", {})
    if key in properties:
        yield properties[key]
    elif isinstance(part.get("additionalProperties"), dict):
        yield part["additionalProperties"]
    elif not part or ("object" in part.get("type", ()) and _open(part)):
        yield {}


def _open(part: Schema) -> bool:
    return "properties" not in part and part.get("additionalProperties") is not False


def _keys(root: Schema, schemas: list[Any], path: tuple[str, ...]) -> list[str]:
    parts = [part for schema in _descend(root, schemas, path) for part in _parts(root, schema)]
    return [key for part in parts for key in part.get("properties", {})]


def _type(root: Schema, schema: Any) -> Type:
    parts = [_own_type(part) for part in _parts(root, schema)]
    typed = [part for part in parts if part is not None]
    if not typed:
        return types.ANY
    result = typed[0]
    for part in typed[1:]:
        result = union(result, part)
    return result


def _own_type(schema: Schema) -> Type | None:
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return _type_of_values(values)
    words = schema.get("type")
    if words is None:
        return None
    names = [words] if isinstance(words, str) else words
    return Type(frozenset(kind for name in names for kind in _KINDS[name]))


def _type_of_values(values: list[Any]) -> Type:
    texts = tuple(value for value in values if isinstance(value, str))
    kinds = {_kind(value) for value in values}
    return Type(frozenset(kinds), texts)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "bool", int: "int", float: "float", str: "str", list: "list", dict: "map"}
    return names[type(value)]
