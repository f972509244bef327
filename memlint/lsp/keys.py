"""Facts about a framework's key: from its schema, and from the run whose file has it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from memlint._record import NamedTuple
from memlint.formats import recognise
from memlint.formats.accelerate.keys import KEYS as ACCELERATE
from memlint.formats.axolotl.keys import KEYS as AXOLOTL
from memlint.formats.base import Format
from memlint.formats.deepspeed.keys import KEYS as DEEPSPEED
from memlint.formats.keys import Keys
from memlint.formats.llamafactory.keys import KEYS as LLAMAFACTORY
from memlint.formats.schema.refs import CompiledSchema, Schema, follow, release_note, still_there
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer.keys import KEYS as TRAINER
from memlint.lsp.session import documents_of
from memlint.ruleset.engine import Analysis
from memlint.run import UNKNOWN, Run, get
from memlint.source.document import Document, Path

FLAG = "true or false"
_NAMES = {"boolean": FLAG, "string": "text", "array": "list", "object": "section"}
_RELEASE = re.compile(r"[\w-]+ [\d.]+")
# For the default of the release in force; a format without a table shows its schema's.
_TABLES: Mapping[str, Keys] = {
    "llamafactory": LLAMAFACTORY,
    "axolotl": AXOLOTL,
    "trainer": TRAINER,
    "deepspeed": DEEPSPEED,
    "accelerate": ACCELERATE,
}


class KeyFacts(NamedTuple):
    """A key of a framework.

    `kind`: "integer", "true or false". `default`: the framework's own, as a file would write it, "" if none.
    `values`: the permitted ones, if the schema lists them. `since`, `removed`: the releases that added and removed it
    ("transformers 5.0"). `renamed`: its new name.
    """

    name: str
    about: str = ""
    kind: str = ""
    default: str = ""
    values: tuple[Any, ...] = ()
    since: str = ""
    removed: str = ""
    renamed: str = ""

    def description(self) -> str:
        """ "integer, default 8, since transformers 4.46"."""
        parts = [
            self.kind,
            f"default {self.default}" if self.default else "",
            f"since {self.since}" if self.since else "",
        ]
        parts += [f"removed in {self.removed}" if self.removed else "", f"now `{self.renamed}`" if self.renamed else ""]
        return ", ".join(filter(None, parts))

    def is_in_force(self, versions: Mapping[str, tuple[int, ...]]) -> bool:
        """Whether the releases in use have the key."""
        if self.renamed or (self.removed and not still_there(self.removed, versions)):
            return False
        return not (_RELEASE.fullmatch(self.since) and still_there(self.since, versions))


class KeyList(NamedTuple):
    """The place in a schema that lists the keys of a mapping."""

    compiled: CompiledSchema
    schemas: tuple[Schema, ...]

    def key(self, name: str) -> KeyFacts | None:
        found = next((part["properties"][name] for part in self.schemas if name in part.get("properties", ())), None)
        return None if found is None else key_facts(name, found, self.compiled)

    def all(self) -> Iterator[KeyFacts]:
        """Every key once."""
        names = dict.fromkeys(name for part in self.schemas for name in part.get("properties", ()))
        return (key for name in names if (key := self.key(name)) is not None)


def keys_at(schema_name: str, pointer: Path) -> KeyList:
    """The keys of the mapping at `pointer` in files that a schema describes."""
    compiled = compiled_schema(schema_name)
    schemas = tuple(_alternatives(compiled.schema, compiled))
    for step in pointer:
        schemas = tuple(part for schema in schemas for part in _below(schema, step, compiled))
    return KeyList(compiled, schemas)


def _below(schema: Schema, step: str | int, compiled: CompiledSchema) -> Iterator[Schema]:
    inner = schema.get("items") if isinstance(step, int) else schema.get("properties", {}).get(step)
    if isinstance(inner, dict):
        yield from _alternatives(inner, compiled)


def _alternatives(schema: Schema, compiled: CompiledSchema, depth: int = 0) -> Iterator[Schema]:
    """A schema with its reference followed, and its alternatives."""
    found = follow(schema, compiled.root)
    if not isinstance(found, dict):
        return
    yield found
    for branch in (*found.get("anyOf", ()), *found.get("allOf", ()), *found.get("oneOf", ())) if depth < 4 else ():
        yield from _alternatives(branch, compiled, depth + 1)


def key_facts(name: str, schema: Schema, compiled: CompiledSchema) -> KeyFacts:
    """The facts about a key in the schema of its property."""
    parts = [schema, *_alternatives(schema, compiled)]
    default = next((as_written(part["default"]) for part in parts if part.get("default") is not None), "")
    return KeyFacts(
        name,
        next((text for part in parts if (text := part.get("description", "")) != release_note(part)), ""),
        ", ".join(dict.fromkeys(kind for part in parts for kind in _kinds(part) if kind != "null")),
        default,
        tuple({repr(value): value for part in parts for value in _values(part) if value is not None}.values()),
        *(str(schema.get(f"x-memlint-{note}", "")) for note in ("since", "removed-in", "renamed-to")),
    )


def as_written(value: Any) -> str:
    """A value as YAML and JSON write it."""
    return value if isinstance(value, str) and value else json.dumps(value)


def _kinds(part: Schema) -> list[str]:
    if part.get("x-memlint-says") == FLAG:
        return [FLAG]
    kind = part.get("type", ())
    return [_NAMES.get(one, one) for one in ([kind] if isinstance(kind, str) else kind)]


def _values(part: Schema) -> list[Any]:
    if FLAG in (part.get("x-memlint-says"), *_kinds(part)):
        return [True, False]
    return [*part.get("enum", ()), *([part["const"]] if "const" in part else [])]


def stack_versions(run: Run) -> dict[str, tuple[int, ...]]:
    """Package -> the release for which the run was read."""
    stack = run.stack
    found = {name: getattr(stack, name) for name in ("transformers", "deepspeed", "accelerate", "trl", "peft", "torch")}
    found[stack.framework] = stack.framework_version
    return {name: number for name, number in found.items() if number}


def default_in_force(format_name: str, key: str, run: Run) -> str:
    """The default that a run uses for a key, as a file would write it; "" if the value does not come from a default, or
    the key has no field of its own in the run."""
    table = _TABLES.get(format_name)
    row = table[key] if table is not None and key in table else None
    origin = run.origins.get(row.field) if row is not None and row.field else None
    if row is None or origin is None or origin.kind != "default":
        return ""
    value = get(run, row.field)
    written = None if value is UNKNOWN else row.written_value(value)
    return "" if written is None else as_written(written)


def format_of(analysis: Analysis, document: Document) -> Format | None:
    """The format of a document that takes part in an analysis."""
    if document.path == analysis.document.path and document.start == analysis.document.start:
        return analysis.format
    found = recognise(document)
    return found[0] if found is not None else None


def documents_at(path: str, analyses: tuple[Analysis, ...]) -> Iterator[tuple[Analysis, Document]]:
    """The documents of the file at `path`, each with an analysis that it takes part in."""
    for analysis in analyses:
        yield from ((analysis, document) for document in documents_of(analysis) if document.path == path)


def pointer_at(document: Document, offset: int) -> Path | None:
    """The path of the key or plain value at `offset`; None between them."""
    best: Path | None = None
    width = len(document.text) + 1
    for path, place in document.places.items():
        for span in (place.key, None if _is_container(document, path) else place.value):
            if path and span is not None and span.start <= offset <= span.end and span.end - span.start < width:
                best, width = path, span.end - span.start
    return best


def _is_container(document: Document, path: Path) -> bool:
    """Whether a value has values with places of their own inside (a mapping, a list)."""
    return isinstance(value_at(document, path), (dict, list))


def value_at(document: Document, path: Path) -> Any:
    """The value at `path`; None if there is none."""
    value = document.value
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value
