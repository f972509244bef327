"""Rules from files on disk: `rules/<family>/<id>.yaml` and the rules written in Python."""

from __future__ import annotations

import os
from collections.abc import Iterable

from memlint.ruleset.rule import Rule, RuleError
from memlint.ruleset.rule_file import parse_rule
from memlint.source import load
from memlint.source.document import Document

DIALECT = "yaml12"
MAX_BYTES = 200_000


def read_rule(path: str, name: str = "") -> Rule:
    """The rule in the file at `path`. `name`: the file's name in messages. Raises `RuleError`."""
    return parse_rule(read_document(path, name or path))


def read_document(path: str, name: str) -> Document:
    """A rule file as a document: for `parse_rule`, and for its examples. Raises `RuleError`."""
    try:
        with open(path, "rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise RuleError(name, 1, 1, f"cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise RuleError(name, 1, 1, f"is larger than {MAX_BYTES} bytes")
    documents = load(data, name, syntax="yaml", dialect=DIALECT)
    if len(documents) > 1:
        raise RuleError(name, 1, 1, "holds several documents: one rule a file")
    return documents[0]


def rule_files(folder: str) -> list[str]:
    """The rule files below `folder` as relative paths, in the same order on every machine."""
    found: list[str] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        inside = os.path.relpath(root, folder).replace(os.sep, "/")
        prefix = "" if inside == "." else f"{inside}/"
        found.extend(f"{prefix}{name}" for name in names if name.endswith((".yaml", ".yml")))
    return sorted(found)


def read_folder(folder: str) -> tuple[Rule, ...]:
    """Every rule below `folder`, by id. Raises `RuleError` for the first that is broken, or an id used twice."""
    return ordered(read_rule(f"{folder}/{name}") for name in rule_files(folder))


def ordered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Rules by id. Raises `RuleError` where two share one."""
    by_id: dict[str, Rule] = {}
    for rule in rules:
        if rule.id in by_id:
            raise RuleError(rule.path, 1, 1, f"the id {rule.id} is taken by {by_id[rule.id].path}")
        by_id[rule.id] = rule
    return tuple(by_id[name] for name in sorted(by_id))
