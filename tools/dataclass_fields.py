"""Fields of argument dataclasses, read from source text without importing it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

SCALARS: dict[str, Any] = {
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "str": {"type": "string"},
    "bool": {"$ref": "#/$defs/flag"},
    "dict": {"type": "object"},
    "list": {"type": "array"},
    "None": {"type": "null"},
    "Any": {},
}


class Field(NamedTuple):
    name: str
    annotation: str
    default: Any  # ... where it is no literal


def fields(source: str, suffixes: tuple[str, ...]) -> Iterator[Field]:
    """The annotated fields that `__init__` takes, of every class whose name ends with one of `suffixes`."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and node.name.endswith(suffixes):
            for item in node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name) and _is_argument(item):
                    yield Field(item.target.id, ast.unparse(item.annotation), _default(item.value))


def _is_argument(item: ast.AnnAssign) -> bool:
    name = item.target.id if isinstance(item.target, ast.Name) else ""
    call = item.value
    keywords = call.keywords if isinstance(call, ast.Call) else []
    initialised = not any(word.arg == "init" and ast.unparse(word.value) == "False" for word in keywords)
    return initialised and not name.startswith("_") and "ClassVar" not in ast.unparse(item.annotation)


def _default(value: ast.expr | None) -> Any:
    if isinstance(value, ast.Call):
        found = [word.value for word in value.keywords if word.arg == "default"]
        value = found[0] if found else None
    try:
        return ast.literal_eval(value) if value is not None else ...
    except ValueError:
        return _product(value)


def _product(value: ast.expr | None) -> Any:
    """`768 * 768` as a number."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):
        left, right = _default(value.left), _default(value.right)
        if isinstance(left, int) and isinstance(right, int):
            return left * right
    return ...


def enums(source: str) -> dict[str, list[str]]:
    """The string values of the Enum classes in `source`."""
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(base) for base in node.bases):
            assigned = [item.value for item in node.body if isinstance(item, ast.Assign)]
            values = [item.value for item in assigned if isinstance(item, ast.Constant) and isinstance(item.value, str)]
            found[node.name] = list(dict.fromkeys(values))
    return found


def schema_of(annotation: str, known: dict[str, list[str]]) -> dict[str, Any]:
    """What a JSON or YAML value for that annotation looks like; {} where anything goes."""
    branches = [_branch(part, known) for part in _union(annotation)]
    if not branches or {} in branches:
        return {}
    unique = [branch for index, branch in enumerate(branches) if branch not in branches[:index]]
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def _union(annotation: str) -> list[str]:
    """The members of `X | Y`, `Optional[X]`, `Union[X, Y]`."""
    text = annotation.strip().strip("'\"")
    wrapped = re.fullmatch(r"(?:typing\.)?(Optional|Union)\[(.*)\]", text)
    if wrapped:
        members = [member for part in _split(wrapped[2], ",") for member in _union(part)]
        return members + (["None"] if wrapped[1] == "Optional" else [])
    parts = _split(text, "|")
    return parts if len(parts) == 1 else [member for part in parts for member in _union(part)]


def _split(text: str, separator: str) -> list[str]:
    """Split at `separator` outside of brackets and quotes."""
    parts, depth, quoted, start = [], 0, "", 0
    for index, letter in enumerate(text):
        if quoted:
            quoted = "" if letter == quoted else quoted
        elif letter in "'\"":
            quoted = letter
        elif letter in "[(":
            depth += 1
        elif letter in "])":
            depth -= 1
        elif letter == separator and not depth:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()]


def _branch(name: str, known: dict[str, list[str]]) -> dict[str, Any]:
    head, _, inside = name.partition("[")
    head = head.rpartition(".")[2]
    if head == "Literal":
        return {"enum": list(ast.literal_eval(f"[{inside.rstrip(']')}]"))}
    if head in known:
        return {"enum": list(known[head])}
    if head in ("dict", "Dict", "Mapping", "PluginConfig"):
        return {"type": "object"}
    if head in ("list", "List", "Sequence", "tuple"):
        item = schema_of(inside.removesuffix("]"), known) if inside else {}
        return {"type": "array", "items": item} if item else {"type": "array"}
    return dict(SCALARS.get(head, {}))
