"""JSON Schema for the annotations of pydantic models: what pydantic's lax mode takes from a YAML file."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from pydantic_models import Sources, is_enum, members
from schema_parts import Schema, any_of, kinds_of

# pydantic's lax mode (conversion table): words and 0/1 for booleans, text for numbers, booleans for numbers.
_WORDS = ("true", "t", "yes", "y", "on", "false", "f", "no", "n", "off")
_ANY_CASE = "|".join("".join(f"[{letter}{letter.upper()}]" for letter in word) for word in _WORDS)
_DIGITS = r"[0-9]+(_[0-9]+)*"
FLAG_TEXT = f"^({_ANY_CASE}|0|1)$"
INTEGER_TEXT = rf"^\s*[+-]?{_DIGITS}(\.0+)?\s*$"
NUMBER_TEXT = (
    rf"^\s*[+-]?({_DIGITS}(\.({_DIGITS})?)?([eE][+-]?{_DIGITS})?|\.{_DIGITS}([eE][+-]?{_DIGITS})?"
    r"|[iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\s*$"
)
SCALARS: dict[str, Schema] = {
    "flag": {
        "anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": FLAG_TEXT}],
        "x-memlint-says": "true or false",
    },
    "integer": {
        "anyOf": [{"type": ["integer", "boolean"]}, {"type": "string", "pattern": INTEGER_TEXT}],
        "x-memlint-says": "an integer",
    },
    "number": {
        "anyOf": [{"type": ["number", "boolean"]}, {"type": "string", "pattern": NUMBER_TEXT}],
        "x-memlint-says": "a number",
    },
}
PLAIN = {"str": "string", "dict": "object", "Dict": "object", "list": "array", "List": "array", "None": "null"}
REFERENCES = {"bool": "flag", "int": "integer", "float": "number"}
LIST, MAPPING = ("items", "minItems", "maxItems"), ("properties", "additionalProperties", "x-memlint-unknown")
DETAILS = {"array": LIST, "object": MAPPING}


class Compiler:
    """Schemas of the annotations of one release; models become `$defs`, with the kinds of value beside a mapping."""

    def __init__(self, sources: Sources, types: Mapping[str, Schema], groups: Mapping[str, str]) -> None:
        """`types` are schemas of names that the source does not spell; `groups` the `$defs` that models share."""
        self.sources = sources
        self.types = types
        self.groups = groups
        self.models: dict[str, list[str]] = {}

    def of(self, annotation: ast.expr) -> Schema:
        if isinstance(annotation, ast.Constant):
            text = annotation.value
            return self.of(ast.parse(text, mode="eval").body) if isinstance(text, str) else {"type": "null"}
        if isinstance(annotation, ast.BinOp):
            return self.union([annotation.left, annotation.right])
        if isinstance(annotation, ast.Subscript):
            return self.subscript(annotation)
        return self.name(ast.unparse(annotation).rpartition(".")[2])

    def union(self, parts: list[ast.expr], *more: Schema) -> Schema:
        """One schema wherever possible: a message about a part of `anyOf` says little."""
        branches = once([*(self.of(part) for part in parts), *more])
        named = [branch for branch in branches if "$ref" in branch and model_of(branch) in self.models]
        if len(named) != 1:
            return merged_union(branches)
        kinds = [kind for branch in branches if branch is not named[0] for kind in kinds_beside(branch)]
        self.models[model_of(named[0])] = list(dict.fromkeys([*self.models[model_of(named[0])], *kinds]))
        return named[0]

    def subscript(self, annotation: ast.Subscript) -> Schema:
        head = ast.unparse(annotation.value).rpartition(".")[2]
        inside = annotation.slice
        parts = inside.elts if isinstance(inside, ast.Tuple) else [inside]
        if head == "Literal":
            return {"enum": [ast.literal_eval(part) for part in parts]}
        if head in ("Optional", "Union"):
            return self.union(parts, *([{"type": "null"}] if head == "Optional" else []))
        if head == "Annotated":
            return self.annotated(parts)
        if head in ("list", "List"):
            return {"type": "array", "items": self.of(parts[0])}
        if head in ("tuple", "Tuple"):
            return {"type": "array", "minItems": len(parts), "maxItems": len(parts), "items": self.of(parts[0])}
        if head in ("dict", "Dict"):
            value = self.of(parts[1])
            return {"type": "object", **({"additionalProperties": value} if value else {})}
        return {}

    def annotated(self, parts: list[ast.expr]) -> Schema:
        schema = self.of(parts[0])
        for extra in parts[1:]:
            words = {word.arg: ast.literal_eval(word.value) for word in getattr(extra, "keywords", [])}
            if "pattern" in words:
                schema = {**schema, "pattern": words["pattern"], "x-memlint-says": f"text like {words['pattern']}"}
            elif ast.unparse(extra).startswith("MinLen"):
                schema = {**schema, "minItems": 1}
        return schema

    def name(self, name: str) -> Schema:
        if name in self.types:
            return dict(self.types[name])
        if name in REFERENCES:
            return {"$ref": f"#/$defs/{REFERENCES[name]}"}
        if name in PLAIN:
            return {"type": PLAIN[name]}
        if name in self.sources.classes:
            node = self.sources.classes[name]
            return {"enum": members(node)} if is_enum(node) else self.model(name)
        if name in self.sources.assigned:
            return self.of(self.sources.assigned[name])
        return {}

    def model(self, name: str) -> Schema:
        kept = self.groups.get(name, name)
        self.models.setdefault(kept, [])
        return {"$ref": f"#/$defs/{kept}"}

    def kinds(self, model: str) -> Schema:
        """`type` of a model's `$defs` entry: a mapping, and what the annotations allow beside it."""
        kinds = self.models[model]
        if "boolean" in kinds:  # `Model | bool`: 0, 1 and words are flags as well
            also = [kind for kind in kinds if kind not in ("integer", "string")]
            flag = {"minimum": 0, "maximum": 1, "pattern": FLAG_TEXT, "x-memlint-says": "a mapping or true or false"}
            return {"type": ["object", *also, "integer", "string"], **flag}
        return {"type": ["object", *kinds] if kinds else "object"}


def model_of(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def kinds_beside(branch: Schema) -> list[str]:
    """`Model | bool | None`: the kinds of value beside the mapping."""
    return kinds_of(branch) if "type" in branch else ["boolean", "integer", "string"]


def once(parts: list[Schema]) -> list[Schema]:
    """The alternatives, laid flat, none twice, and no words beside any text."""
    flat = [branch for part in parts for branch in alternatives(part)]
    found = [branch for index, branch in enumerate(flat) if branch not in flat[:index]]
    if {"type": "string"} in found:
        found = [branch for branch in found if not all(isinstance(word, str) for word in branch.get("enum", (0,)))]
    return found


def alternatives(schema: Schema) -> list[Schema]:
    if set(schema) == {"anyOf"}:
        return [part for branch in schema["anyOf"] for part in alternatives(branch)]
    if not isinstance(schema.get("type"), list):
        return [schema]
    details = {key: value for key, value in schema.items() if key != "type"}
    return [
        {"type": kind, **{key: details[key] for key in DETAILS.get(kind, ()) if key in details}}
        for kind in schema["type"]
    ]


def merged_union(branches: list[Schema]) -> Schema:
    """Lists and mappings share one schema with plain types: their keywords leave other values alone."""
    if {} in branches:
        return {}
    if len(branches) == 2 and "enum" in branches[0] and branches[1] == {"type": "null"}:
        return {"enum": [*branches[0]["enum"], None]}
    kinds = [branch["type"] for branch in branches if "type" in branch and set(branch) <= {"type", *LIST, *MAPPING}]
    rest = [branch for branch in branches if branch.get("type") not in kinds]
    if len(set(kinds)) < len(kinds):
        return any_of(branches)
    together = {key: value for branch in branches if branch not in rest for key, value in branch.items()}
    whole = [{**together, "type": kinds[0] if len(kinds) == 1 else kinds}] if kinds else []
    return (rest + whole)[0] if len(rest + whole) == 1 else {"anyOf": rest + whole}


def bounded(schema: Schema, bounds: Schema) -> Schema:
    """A number, or text that is one, within bounds. They stand beside `anyOf`: a message can name the bound."""
    return {"anyOf": schema.get("anyOf", [schema]), **bounds} if bounds else schema
