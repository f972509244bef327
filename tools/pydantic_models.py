"""Pydantic models, read from source text without importing it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

BOUNDS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}


class ModelField(NamedTuple):
    name: str
    annotation: ast.expr
    default: Any  # ... where it is no literal
    required: bool
    aliases: tuple[str, ...]
    bounds: dict[str, float]
    deprecated: str


class Sources(NamedTuple):
    """What the files of one release define, by name."""

    classes: dict[str, ast.ClassDef]
    assigned: dict[str, ast.expr]  # `Recipe = Literal["a", "b"]`


def read(texts: Iterable[str]) -> Sources:
    classes: dict[str, ast.ClassDef] = {}
    assigned: dict[str, ast.expr] = {}
    for text in texts:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef):
                classes[node.name] = node
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                assigned[node.targets[0].id] = node.value
    return Sources(classes, assigned)


def fields(name: str, sources: Sources) -> dict[str, ModelField]:
    """The fields of a model with those that it inherits; what a class says itself wins."""
    node = sources.classes.get(name)
    found: dict[str, ModelField] = {}
    if node is not None:
        for base in reversed(node.bases):
            found.update(fields(ast.unparse(base).rpartition(".")[2], sources))
        found.update({field.name: field for field in _own_fields(node)})
    return found


def config_of(name: str, sources: Sources) -> str:
    """The text of a model's own `model_config`; "" where it has none."""
    for line in sources.classes[name].body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "model_config":
            return ast.unparse(line.value)
    return ""


def is_enum(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("Enum") for base in node.bases)


def members(node: ast.ClassDef) -> list[Any]:
    """The values of an Enum class that are literals."""
    values = [line.value for line in node.body if isinstance(line, ast.Assign)]
    return [value.value for value in values if isinstance(value, ast.Constant)]


def _own_fields(node: ast.ClassDef) -> Iterator[ModelField]:
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and line.target.id != "model_config":
            if ast.unparse(line.annotation).startswith("ClassVar"):
                continue
            annotation, call = _without_field(line.annotation)
            yield _field(line.target.id, annotation, call or line.value)


def _without_field(annotation: ast.expr) -> tuple[ast.expr, ast.expr | None]:
    """`Annotated[X, Field(...)]` as X and the call."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "Annotated":
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
        calls = [part for part in parts if isinstance(part, ast.Call) and ast.unparse(part.func) == "Field"]
        if calls:
            return parts[0], calls[0]
    return annotation, None


def _field(name: str, annotation: ast.expr, value: ast.expr | None) -> ModelField:
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith("Field")):
        return ModelField(name, annotation, _literal(value), value is None, (), {}, "")
    words = {word.arg: word.value for word in value.keywords if word.arg}
    default = value.args[0] if value.args else words.get("default")
    stated = {keyword: _literal(words[word]) for word, keyword in BOUNDS.items() if word in words}
    bounds = {keyword: value for keyword, value in stated.items() if value is not ...}
    deprecated = _literal(words.get("deprecated"))
    return ModelField(
        name,
        annotation,
        _literal(default),
        default is None and "default_factory" not in words,
        tuple(_aliases(words)),
        bounds,
        deprecated if isinstance(deprecated, str) else "",
    )


def _aliases(words: dict[str, ast.expr]) -> Iterator[str]:
    for word in ("alias", "validation_alias"):
        for node in ast.walk(words[word]) if word in words else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def _literal(value: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(value) if value is not None else ...
    except ValueError:
        return ...
