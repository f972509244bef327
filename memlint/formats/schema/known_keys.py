"""The keys that a schema lists, each looked at when a file first has it: most of several hundred never are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.formats.schema.refs import MAX_ISSUES, CompiledSchema, Schema, follow
from memlint.source.document import Path

_OUTDATED = frozenset(("x-memlint-removed-in", "x-memlint-renamed-to", "x-memlint-removed-values"))


class _Key(NamedTuple):
    """What a schema says of a key. `schemas`: of each branch that has it. `outdated`: the last of them that says that
    the key, or a value of it, is gone."""

    schemas: tuple[Schema, ...]
    outdated: Schema | None


class KnownKeys:
    """The keys of an object schema. `key` and `value` are those of a file."""

    def __init__(self, compiled: CompiledSchema) -> None:
        self._root = compiled.root
        self._properties = _properties(compiled.schema, compiled.root)
        self._keys: dict[Any, _Key] = {}
        self._sections: dict[Any, bool] = {}  # whether a key below it may be outdated, by key

    def annotated(self, value: Any) -> Iterator[tuple[Schema, Any, Path]]:
        """The keys in use that are outdated, at any depth: (schema, value, pointer) of each."""
        for key, one in value.items() if isinstance(value, dict) else ():
            known = self._key(key)
            if known.outdated is not None:
                yield known.outdated, one, (key,)
            if isinstance(one, (dict, list)) and self._says_outdated_below(key, known):
                yield from _below(known.schemas, self._root, one, (key,))

    def _key(self, key: Any) -> _Key:
        known = self._keys.get(key)
        if known is None:
            schemas = tuple(one[key] for one in self._properties if key in one)
            known = _Key(schemas, _outdated(schemas))
            if schemas:  # files have any number of other keys
                self._keys[key] = known
        return known

    def _says_outdated_below(self, key: Any, known: _Key) -> bool:
        found = self._sections.get(key)
        if found is None:
            found = any(_says_outdated_below(schema, self._root) for schema in known.schemas)
            if known.schemas:
                self._sections[key] = found
        return found


def _properties(schema: Schema, root: Schema) -> list[Schema]:
    """The properties of a schema, and of each of its alternatives."""
    parts = [follow(schema, root)]
    parts += [follow(branch, root) for branch in parts[0].get("anyOf", ())]
    return [part["properties"] for part in parts if "properties" in part]


def _outdated(schemas: Iterable[Schema]) -> Schema | None:
    found = [schema for schema in schemas if not _OUTDATED.isdisjoint(schema)]
    return found[-1] if found else None


def _says_outdated_below(schema: Schema, root: Schema) -> bool:
    """Whether a key below that of a schema may be outdated: most sections of several hundred keys have none."""
    pending, seen = [*schema.values()], set[int]()
    for part in pending:  # grows while it is read
        if isinstance(part, dict) and id(part) not in seen:
            seen.add(id(part))
            if not _OUTDATED.isdisjoint(part):
                return True
            pending += part.values()
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str) and part.startswith("#/"):
            pending.append(follow({"$ref": part}, root))
    return False


def _below(schemas: tuple[Schema, ...], root: Schema, value: Any, pointer: Path) -> Iterable[tuple[Schema, Any, Path]]:
    """The outdated keys below a key. Of the branches that have the key, the last one that says something counts."""
    found = (list(_annotated(schema, root, value, pointer)) for schema in reversed(schemas))
    return next(filter(None, found), ())


def _annotated(schema: Schema, root: Schema, value: Any, pointer: Path) -> Iterator[tuple[Schema, Any, Path]]:
    if isinstance(value, dict):
        known = _properties(schema, root)
        for key, one in value.items():
            schemas = tuple(properties[key] for properties in known if key in properties)
            outdated = _outdated(schemas)
            if outdated is not None:
                yield outdated, one, (*pointer, key)
            if isinstance(one, (dict, list)):
                yield from _below(schemas, root, one, (*pointer, key))
    elif isinstance(value, list):
        for items in _items(schema, root):
            for index, item in enumerate(value[:MAX_ISSUES]):
                yield from _annotated(items, root, item, (*pointer, index))


def _items(schema: Schema, root: Schema) -> list[Schema]:
    """What a schema, and each of its alternatives, says of the items of a list."""
    whole = follow(schema, root)
    parts = (whole, *(follow(branch, root) for branch in whole.get("anyOf", ())))
    return [part["items"] for part in parts if "items" in part]
