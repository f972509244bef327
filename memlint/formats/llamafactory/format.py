"""LLaMA-Factory: one YAML (or JSON) file for `llamafactory-cli train|chat|api|export`, v0 keys or the v1 layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.findings import Edit
from memlint.formats.base import Context, Issue, Parsed, Recognition
from memlint.formats.llamafactory.issues import copy_of, fork_of, skips_rule, unjudged
from memlint.formats.llamafactory.recognise import is_v1, recognise_document
from memlint.formats.llamafactory.releases import with_release_of_program
from memlint.formats.llamafactory.v0 import parse_v0
from memlint.formats.own_reader import rule_applies
from memlint.run import Run
from memlint.source.document import Document

__all__ = [
    "DIALECT",
    "NAME",
    "SCHEMA",
    "copy_of",
    "dialect",
    "edits",
    "fork_of",
    "parse",
    "recognise",
    "rule_applies",
    "skips_rule",
    "unjudged",
]

NAME = "llamafactory"
DIALECT = "omegaconf"
SCHEMA = "llamafactory.json"


def dialect(context: Context) -> str:
    """hparams/parser.py: OmegaConf.load reads the file since 0.9.4, PyYAML before, which takes a key twice and knows no
    `1e-5`. A copy of a development version, which has the keys of the release before it, may read with either."""
    is_older = context.versions.get("llamafactory", (0, 9, 4)) < (0, 9, 4)
    return "yaml11" if is_older and "OmegaConf" not in context.repository.argument_parsers() else DIALECT


def recognise(document: Document) -> Recognition:
    """Whether this document is a LLaMA-Factory file, judged by its keys alone, and what it is for."""
    return recognise_document(document)


def parse(document: Document, context: Context) -> Parsed:
    """The document (read in DIALECT) as a run with issues and origins. Never raises on any value."""
    if not isinstance(document.value, dict):
        return Parsed(NAME, (), (), (document,))
    context = with_release_of_program(document, context)
    role = recognise_document(document).role
    parsed = _parse_v1(document, context, role) if is_v1(document.value) else parse_v0(document, context, role)
    return parsed._replace(issues=(*_unreadable(document, context), *parsed.issues))


def _parse_v1(document: Document, context: Context, role: str) -> Parsed:
    from memlint.formats.llamafactory.v1 import parse_v1  # a layout that few files have

    return parse_v1(document, context, role)


def _unreadable(document: Document, context: Context) -> tuple[Issue, ...]:
    """`json.load(Path(...))` (hparams/parser.py:123, since 0.9.5) cannot work: a path is no file. A file that no
    command hands to LLaMA-Factory may be for a script that loads it."""
    if document.syntax != "json" or context.versions.get("llamafactory", (0, 9, 5)) < (0, 9, 5):
        return ()
    if not any(launch.launcher == "llamafactory-cli" for launch in context.repository.launch_commands(document.path)):
        return ()
    message = "LLaMA-Factory 0.9.5 cannot read JSON configs (it hands json.load a path): write it as YAML"
    return (Issue("unreadable-config", message, document.path, (), "warning"),)


def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
    """How the YAML, or the DeepSpeed JSON behind it, would say `changes`; None where LLaMA-Factory cannot."""
    from memlint.formats.llamafactory.edits import llamafactory_edits  # writes keys back: for fixes

    return llamafactory_edits(parsed, run, changes)


def reads_releases(run: Run) -> bool:
    """Whether other releases (those of 2025 and 2026) read the file as another run, its versions aside: they differ in
    the FSDP that `fsdp:` stands for, version 2 since transformers 5.10."""
    return run.parallelism.engine == "fsdp"
