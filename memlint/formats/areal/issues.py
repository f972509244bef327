"""What AReaL refuses in a file or a command: keys that no release declares, values of another type, and what refused.py
has. A program may declare a class of its own with further keys, and so may a copy of AReaL."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.formats.areal.config import PACKAGE, ArealConfig, has_copy, is_declared
from memlint.formats.areal.mandatory import missing_values
from memlint.formats.areal.recognise import NAME, SCHEMA
from memlint.formats.areal.refused import refused
from memlint.formats.areal.releases import keys_in
from memlint.formats.base import Issue
from memlint.formats.fields import Fields, Section, value_at
from memlint.formats.key_releases import key_releases, refused_keys
from memlint.formats.schema.validate import compiled_schema, schema_issues
from memlint.formats.unread_texts import unread_texts
from memlint.source.layout import key_text

_OWN_CLASS = "the program reads it into AReaL's own class"
_REFUSES = "AReaL refuses to start"
_OPEN = re.compile(r"\$\{|^\?\?\?$|^(?:on|off|y|n)$", re.IGNORECASE)  # words that OmegaConf makes flags of, too
_OF_COMMAND = ("config", "hydra")


def areal_issues(fields: Fields, config: ArealConfig) -> Iterator[Issue]:
    unknown = tuple(_unknown_keys(config))
    yield from unknown
    for issue in schema_issues(config.own.value, config.own.document.path, SCHEMA, config.context.versions):
        if issue.code in ("wrong-type", "bad-value") and not _OPEN.search(str(_value(config, issue))):
            yield issue
    texts = unread_texts(config.own, compiled_schema(SCHEMA).schema, _REFUSES)
    yield from (one for one in texts if not _OPEN.search(str(_value(config, one))))
    if not unknown and config.own.document.start is None:
        yield from _of_other_releases(config, config.own, _OWN_CLASS)
    yield from _of_named_file(config)
    if not has_copy(config.context):
        yield from missing_values(config)
    yield from refused(fields, config)


def _value(config: ArealConfig, issue: Issue) -> object:
    return value_at(config.own.value, issue.pointer)


def _unknown_keys(config: ArealConfig) -> Iterator[Issue]:
    """Keys that no class of AReaL declares. At the top of a file they may be those of a class that a program derives,
    as most programs do; nothing is said of them unless they are slips of AReaL's own."""
    own = config.own
    for issue in _undeclared(config, own):
        if len(issue.pointer) > 1 or (issue.suggestion and issue.suggestion not in own.value):
            yield issue._replace(where="" if _shows_its_classes(config) else _OWN_CLASS)


def _undeclared(config: ArealConfig, section: Section) -> Iterator[Issue]:
    """The keys of a file that neither AReaL nor a class of the repository declares."""
    if has_copy(config.context):
        return
    for issue in schema_issues(section.value, section.document.path, SCHEMA, config.context.versions):
        if issue.code == "unknown-key" and not _is_anothers(config, section, issue):
            yield issue


def _is_anothers(config: ArealConfig, section: Section, issue: Issue) -> bool:
    """Whether the key is an option of the command, one that Hydra adds (`+a.b=1`), or of a class of the repository."""
    key = str(issue.pointer[-1])
    if len(issue.pointer) == 1 and section.document.start is not None and key in _OF_COMMAND:
        return True
    added = key_text(section.document, issue.pointer).startswith(("+", "~"))
    return added or is_declared(config, ".".join(map(str, issue.pointer)))


def _shows_its_classes(config: ArealConfig) -> bool:
    """Whether the command starts a program of this repository, whose classes would have shown a key."""
    start = config.own.document.start
    return start is not None and not start.program.is_foreign


def _of_named_file(config: ArealConfig) -> Iterator[Issue]:
    """The file that a command names may have a key that ends the program that the command starts."""
    if config.named is None or has_copy(config.context) or not _shows_its_classes(config):
        return
    strange = (".".join(map(str, one.pointer)) for one in _undeclared(config, config.named))
    key = next(strange, "") or _of_another_class(config, config.named)
    if key:
        message = f"AReaL does not know the key `{key}` of this file: {_REFUSES}"
        yield config.own.issue("unknown-key", message, "config")
        return
    for one in _of_other_releases(config, config.named, ""):
        yield one._replace(path=config.own.document.path, pointer=("config",), on_key=False, edit=None)


def _of_another_class(config: ArealConfig, section: Section) -> str:
    """A key of a class of AReaL that is not that of this file's sections; "" where there is none."""
    table = key_releases(NAME, config.algorithm())
    known = compiled_schema(SCHEMA).schema
    keys = (key for key in keys_in(section.value) if table is not None and not table.knows(key))
    return next((key for key in keys if _has(known, key) and not is_declared(config, key)), "")


def _has(schema: Mapping[str, Any], key: str) -> bool:
    for step in key.split("."):
        schema = schema.get("properties", {}).get(step)
        if schema is None:
            return False
    return True


def _of_other_releases(config: ArealConfig, section: Section, where: str) -> Iterator[Issue]:
    """Keys that no release takes together, or that the stated release does not take. `where`: a condition; with one
    nothing is said of keys at the top, which may be of a class that a program derives."""
    table = key_releases(NAME, config.algorithm())
    if table is None or has_copy(config.context):
        return
    given = (key for key in keys_in(section.value) if table.knows(key) and ("." in key or not where))
    keys = tuple(key for key in given if not is_declared(config, key))
    refusal = table.refusal(keys, config.context.versions.get(PACKAGE, ()))
    if refusal is not None:
        yield from (one._replace(where=where) for one in refused_keys(section, table, refusal, "AReaL"))
