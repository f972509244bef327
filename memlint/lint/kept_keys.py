"""The keys of `plan --keep`: one that is misspelled would protect nothing, so it is an error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from memlint.errors import UsageError
from memlint.formats.schema.suggest import nearest
from memlint.formats.schema.validate import compiled_schema
from memlint.ruleset.engine import Analysis
from memlint.run import Run


def refuse_misspelled(kept: Iterable[str], analyses: Iterable[Analysis]) -> None:
    """Raises UsageError for a key that no file, framework or run has and that misspells one that they have.

    Another unknown key may be one that a script of the repository reads.
    """
    asked = [part for key in kept for part in key.split(".")]
    if not asked:
        return
    known = {name for analysis in analyses for name in _names_of(analysis)} | set(_fields())
    for name in asked:
        meant = nearest(name, sorted(known)) if name not in known else ""
        if meant:
            raise UsageError(f"there is no key `{name}` to keep: did you mean `{meant}`?")


def _names_of(analysis: Analysis) -> Iterator[str]:
    documents = analysis.parsed.documents if analysis.parsed else (analysis.document,)
    for document in documents:
        yield from _keys(document.value)
    if analysis.format is not None:
        yield from _properties(compiled_schema(analysis.format.SCHEMA).root)


def _keys(value: Any) -> Iterator[str]:
    for key, below in value.items() if isinstance(value, dict) else ():
        yield str(key)
        yield from _keys(below)


def _properties(schema: Any) -> Iterator[str]:
    """The keys that a schema lists at any depth."""
    parts = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    if isinstance(schema, dict) and isinstance(schema.get("properties"), dict):
        yield from schema["properties"]
    for part in parts:
        yield from _properties(part)


def _fields() -> Iterator[str]:
    """The names of the fields of a run, section by section."""
    for section, default in Run._field_defaults.items():
        yield section
        yield from getattr(default, "_fields", ())
