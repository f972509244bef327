"""LLaMA-Factory: one YAML (or JSON) file for `llamafactory-cli train|chat|export|eval`, v0 keys or v1 layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Parsed, Recognition
from memlint.run import Run
from memlint.source.document import Document

NAME = "llamafactory"
DIALECT = "omegaconf"
SCHEMA = "llamafactory.json"


def recognise(document: Document) -> Recognition:
    return Recognition("no")


def parse(document: Document, context: Context) -> Parsed:
    return Parsed(NAME, (), (), (document,))


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    return None
