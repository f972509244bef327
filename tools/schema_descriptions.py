"""Writes what editors show of the schemas in schemas/: each file's `$id`, and the descriptions of keys.

A key has what its format's table says about it, and one without a row the releases in which it came and went; type,
default and values are shown from the schema itself.

Run it after a table of keys or a schema changed. `--check` only says which schema is stale (exit 1). The other schema
tools know nothing of descriptions: they write a schema without them.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from generated import settle
from key_tables import SCHEMAS, Schema, Table, schema_of, tables
from llamafactory_schema import dump

from memlint.formats.schema.refs import release_note


def described(schema: Schema, found: list[Table]) -> None:
    """Describe the keys that the tables have, each under all of its spellings, and the others by their releases."""
    properties = list(_properties(schema))
    for property_schema in properties:
        property_schema.pop("description", None)
    for table in found:
        top = schema["$defs"][table.layout] if table.layout else schema
        for key in table.keys:
            for name in key.names:
                place = property_of(schema, top, name)
                if place is not None and key.about:
                    place.setdefault("description", key.about)
    for property_schema in properties:
        note = release_note(property_schema)
        if note and "description" not in property_schema:
            property_schema["description"] = note


def identified(schema: Schema, name: str) -> Schema:
    """The schema with its file name as `$id`, behind `$schema`."""
    rest = {key: value for key, value in schema.items() if key not in ("$schema", "$id")}
    return {"$schema": schema["$schema"], "$id": name, **rest}


def property_of(root: Schema, schema: Schema, name: str) -> Schema | None:
    """The schema of the key `name`, whose dots lead into sections; None where the schema does not list it."""
    for step in name.split("."):
        found = next((part["properties"][step] for part in _parts(root, schema) if step in _keys(part)), None)
        if found is None:
            return None
        schema = found
    return schema


def _keys(schema: Schema) -> Schema:
    keys: Schema = schema.get("properties", {})
    return keys


def _parts(root: Schema, schema: Schema) -> Iterator[Schema]:
    """A schema, what it refers to, and its alternatives."""
    yield schema
    if "$ref" in schema:
        yield from _parts(root, root["$defs"][schema["$ref"].removeprefix("#/$defs/")])
    for branch in schema.get("anyOf", ()):
        yield from _parts(root, branch)


def _properties(schema: Any) -> Iterator[Schema]:
    """Every property's schema, however deep."""
    if isinstance(schema, dict):
        for key, inner in schema.items():
            if key == "properties":
                yield from inner.values()
            yield from _properties(inner)
    elif isinstance(schema, list):
        for item in schema:
            yield from _properties(item)


def _spread(schema: Schema) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False)


def _layout(text: str) -> Callable[[Schema], str]:
    """How the file is written: a line a value, or a line a key where that fits."""
    return _spread if _spread(json.loads(text)) + "\n" == text else dump


def main(arguments: list[str]) -> int:
    wanted = {}
    for name, found in itertools.groupby(tables(), lambda table: table.format):
        path = SCHEMAS / f"{name}.json"
        before, schema = path.read_text(encoding="utf-8"), schema_of(name)
        described(schema, list(found))
        schema = identified(schema, path.name)
        wanted[path] = _layout(before)(schema) + "\n"
    return settle(wanted, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
