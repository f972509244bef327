"""JSON Schema for configuration dataclasses, which are read and never run: a key's type is that of its annotation."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from schema_parts import Schema

_TYPES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean", "Path": "string"}


class Dataclasses:
    """The dataclasses of some files by name. OmegaConf makes numbers of texts: a number may be a text.

    `limits`: what a field's schema has besides, by its name or its path, whose end counts (`optim.strategy`). A schema
    with `enum` replaces the whole. `is_closed`: keys that no class declares are refused. `texts`: what may stand for a
    text besides. `is_nullable`: null counts as not given whatever the type is.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        limits: Mapping[str, Schema] = {},
        *,
        is_closed: bool = False,
        texts: tuple[str, ...] = (),
        is_nullable: bool = False,
    ) -> None:
        self.classes = {node.name: node for path in paths for node in _classes(path.read_text(encoding="utf-8"))}
        self.limits = limits
        self.is_closed = is_closed
        self.texts = texts
        self.is_nullable = is_nullable

    def section(self, name: str, above: str = "") -> Schema:
        """The schema of the class `name`, whose fields stand below the key `above`."""
        properties: dict[str, Schema] = {}
        for node in self._ancestors(name):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and not _is_filled_in(field):
                    key = field.target.id
                    properties[key] = self._field(field, f"{above}{key}")
        return {
            "type": "object",
            "properties": properties,
            **({"additionalProperties": False} if self.is_closed else {}),
        }

    def _ancestors(self, name: str) -> Iterator[ast.ClassDef]:
        """The class and those of the files that it is made of, the farthest first."""
        for base in self.classes[name].bases:
            if isinstance(base, ast.Name) and base.id in self.classes:
                yield from self._ancestors(base.id)
        yield self.classes[name]

    def _field(self, field: ast.AnnAssign, path: str) -> Schema:
        parts = [self._part(part.strip(), path) for part in _alternatives(ast.unparse(field.annotation))]
        kinds = [kind for part in parts for kind in part.pop("types")]
        if kinds[:1] == ["string"]:
            kinds = ["string", *self.texts, *kinds[1:]]
        if self.is_nullable and kinds:
            kinds.append("null")
        found: Schema = {"type": [*dict.fromkeys(kinds)]} if kinds else {}
        for part in parts:
            found.update(part)
        limits = self._limits(path)
        if "enum" in limits:
            found = {"enum": [*limits["enum"], *([None] if self.is_nullable else ())]}
        else:
            found.update(limits)
            if "enum" in found:
                found = {"enum": [*found["enum"], *([None] if "null" in kinds else ())]}
        if isinstance(field.value, ast.Constant) and field.value.value is not None:
            found["default"] = field.value.value
        return found

    def _limits(self, path: str) -> Schema:
        names = [name for name in self.limits if path == name or path.endswith(f".{name}")]
        return dict(self.limits[max(names, key=len)]) if names else {}

    def _part(self, name: str, path: str) -> Schema:
        """The schema of one type, with its `types` apart."""
        head, _, inside = name.partition("[")
        if head in ("list", "List"):
            item = self._part(inside.removesuffix("]"), path)
            kinds = item.pop("types")
            return {"types": ["array"], "items": {**({"type": kinds} if kinds else {}), **item}}
        if head in ("dict", "Dict"):
            return {"types": ["object"]}
        if head in self.classes:
            if any(ast.unparse(base).endswith("Enum") for base in self.classes[head].bases):
                return {"types": [], "enum": list(dict.fromkeys(_members(self.classes[head])))}
            inner = self.section(head, f"{path}.")
            return {"types": ["object"], **{key: one for key, one in inner.items() if key != "type"}}
        if head == "None":
            return {"types": ["null"]}
        kind = _TYPES.get(head)
        return {"types": ["string"] if kind == "string" else [kind, "string"] if kind else []}


def merge(older: Schema, newer: Schema) -> None:
    """Put what a newer release has into the schema of the older ones."""
    for key, value in newer.items():
        if key == "properties":
            for name, one in value.items():
                merge(older.setdefault("properties", {}).setdefault(name, {}), one)
        else:
            older[key] = value


def _classes(source: str) -> Iterator[ast.ClassDef]:
    return (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef))


def _is_filled_in(field: ast.AnnAssign) -> bool:
    """Whether the code sets the field by itself (`field(init=False)`), or it is the class's own (`ClassVar`)."""
    is_own = ast.unparse(field.annotation).startswith("ClassVar")
    return is_own or (field.value is not None and "init=False" in ast.unparse(field.value))


def _alternatives(annotation: str) -> list[str]:
    """The types of `X | Y` and `Optional[X]`, "None" among them."""
    if annotation.startswith("Optional["):
        return [annotation.removeprefix("Optional[").removesuffix("]"), "None"]
    if "[" not in annotation:
        return annotation.split("|")
    inner = annotation.removesuffix(" | None")
    return [inner, "None"] if inner != annotation else [inner]


def _members(enumeration: ast.ClassDef) -> Iterator[str]:
    lines = [line for line in enumeration.body if isinstance(line, ast.Assign)]
    yield from (line.targets[0].id for line in lines if isinstance(line.targets[0], ast.Name))
    if any(ast.unparse(base) == "str" for base in enumeration.bases):
        yield from (ast.literal_eval(line.value) for line in lines)
