"""A cheap, sound half of a JSON Schema validator: when it accepts a value, the value is valid.

Importing jsonschema-rs costs 19 ms, most of a cold start, and nearly every file is clean. So each schema is
compiled to closures that say yes to what they can prove valid; only where they cannot, the real validator is
asked (validate.py). A keyword that is not handled here makes its schema unprovable, never wrongly accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Schema = Mapping[str, Any]
Check = Callable[[Any], bool]

_ANNOTATIONS = frozenset({"$schema", "$id", "$defs", "title", "description", "default", "examples", "deprecated"})


def compile_check(schema: Any, root: Schema) -> Check:
    """A function that is True only for values that `schema` (a part of `root`) accepts."""
    return _Compiler(root).compile(schema)


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


def _never(value: Any) -> bool:
    return False


def _always(value: Any) -> bool:
    return True


def _is_number(value: Any) -> bool:
    kind = type(value)
    return kind is int or (kind is float and -1e308 < value < 1e308)


def _is_integer(value: Any) -> bool:
    kind = type(value)
    return kind is int or (kind is float and -1e15 < value < 1e15 and value.is_integer())


_TYPES: Mapping[str, Check] = {
    "string": lambda value: type(value) is str,
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: value is True or value is False,
    "null": lambda value: value is None,
    "array": lambda value: type(value) is list,
    "object": lambda value: type(value) is dict,
}


class _Known(dict[str, "Check | None"]):
    """Checks by property, each compiled when a file first uses it: a file has 30 keys of a schema's 500."""

    def __init__(self, properties: Schema, root: Schema) -> None:
        super().__init__()
        self.properties = properties
        self.root = root

    def __missing__(self, key: str) -> Check | None:
        check = _Compiler(self.root).compile(self.properties[key]) if key in self.properties else None
        if check is not None:  # unknown keys are not kept: a hostile file has many
            self[key] = check
        return check


class _Compiler:
    def __init__(self, root: Schema) -> None:
        self.root = root
        self.active: list[int] = []

    def compile(self, schema: Any) -> Check:
        schema = follow(schema, self.root)
        if schema is True:
            return _always
        if not isinstance(schema, dict) or id(schema) in self.active or len(self.active) > 32:
            return _never
        self.active.append(id(schema))
        try:
            return _all(self._checks(schema))
        finally:
            self.active.pop()

    def _checks(self, schema: Schema) -> list[Check]:
        checks = []
        names = [name for name in schema if name not in _ANNOTATIONS and not name.startswith("x-")]
        for name in names:
            build = _KEYWORDS.get(name)
            if build is None:
                return [_never]
            check = build(self, schema)
            if check is not None:
                checks.append(check)
        return checks

    def types(self, schema: Schema) -> Check:
        wanted = schema["type"]
        checks = [_TYPES.get(name, _never) for name in ([wanted] if isinstance(wanted, str) else wanted)]
        return _any(checks)

    def enum(self, schema: Schema) -> Check:
        options = {(type(option), option) for option in schema["enum"] if not isinstance(option, (list, dict))}
        return lambda value: not isinstance(value, (list, dict)) and (type(value), value) in options

    def const(self, schema: Schema) -> Check:
        return self.enum({"enum": [schema["const"]]})

    def any_of(self, schema: Schema) -> Check:
        return _any([self.compile(branch) for branch in schema["anyOf"]])

    def all_of(self, schema: Schema) -> Check:
        return _all([self.compile(branch) for branch in schema["allOf"]])

    def items(self, schema: Schema) -> Check:
        item = self.compile(schema["items"])
        return lambda value: type(value) is not list or all(map(item, value))

    def bounds(self, schema: Schema) -> Check:
        low, high = schema.get("minimum"), schema.get("maximum")
        above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")

        def check(value: Any) -> bool:
            if type(value) not in (int, float):
                return True
            return not (
                (low is not None and not value >= low)
                or (high is not None and not value <= high)
                or (above is not None and not value > above)
                or (below is not None and not value < below)
            )

        return check

    def lengths(self, schema: Schema) -> Check:
        low, high = schema.get("minItems", 0), schema.get("maxItems", 2**63)
        return lambda value: type(value) is not list or low <= len(value) <= high

    def properties(self, schema: Schema) -> Check:
        known = _Known(schema.get("properties", {}), self.root)
        others = self.compile(schema.get("additionalProperties", True))
        required = schema.get("required", ())

        def check(value: Any) -> bool:
            if type(value) is not dict:
                return True
            for key, item in value.items():
                if type(key) is not str or not (known[key] or others)(item):
                    return False
            return all(key in value for key in required)

        return check


_KEYWORDS: Mapping[str, Callable[[_Compiler, Schema], Check | None]] = {
    "type": _Compiler.types,
    "enum": _Compiler.enum,
    "const": _Compiler.const,
    "anyOf": _Compiler.any_of,
    "allOf": _Compiler.all_of,
    "items": _Compiler.items,
    "minimum": _Compiler.bounds,
    "maximum": _Compiler.bounds,
    "exclusiveMinimum": _Compiler.bounds,
    "exclusiveMaximum": _Compiler.bounds,
    "minItems": _Compiler.lengths,
    "maxItems": _Compiler.lengths,
    "properties": _Compiler.properties,
    "additionalProperties": _Compiler.properties,
    "required": _Compiler.properties,
}


def _any(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) or second(value)
    return lambda value: any(check(value) for check in checks)


def _all(checks: list[Check]) -> Check:
    if not checks:
        return _always
    if len(checks) == 1:
        return checks[0]
    if len(checks) == 2:
        first, second = checks
        return lambda value: first(value) and second(value)
    return lambda value: all(check(value) for check in checks)
