"""The embedded catalog: catalog.jsonl, one configuration a line with all the ids that share it.

A line is found by searching the file's bytes for the id or key, so that one look-up parses one line.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures import datafile, names
from memlint.architectures.builder import from_config
from memlint.architectures.model import Architecture, StoredWeights

FILE = "catalog.jsonl"


class CatalogEntry(NamedTuple):
    """A catalog hit. `inferred` is empty where the id itself is listed."""

    name: str
    config: Mapping[str, Any]
    inferred: str = ""
    stored: StoredWeights | None = None


@lru_cache(maxsize=256)
def find(name: str) -> CatalogEntry | None:
    """The catalog's entry for `name`: a repository id, a mirror of one, or a local path that ends like one."""
    exact = _by_id(name.strip().strip("/"))
    return exact or _by_rule(name)


def architecture(entry: CatalogEntry) -> Architecture:
    """The entry's Architecture; the same object at each call."""
    return _architecture(entry.name, entry.stored)


@lru_cache(maxsize=256)
def _architecture(identifier: str, stored: StoredWeights | None) -> Architecture:
    entry = _by_id(identifier)
    assert entry is not None, identifier
    built = from_config(entry.config)
    return built if stored is None else built._replace(stored=stored)


def _by_id(identifier: str) -> CatalogEntry | None:
    if '"' in identifier or "\\" in identifier:
        return None
    quoted = f'"{identifier.lower()}"'
    line = _line("[" + quoted) or _line("," + quoted)  # a list's item, not a field's value
    if line is None:
        return None
    row = json.loads(line)
    wanted = identifier.lower()
    listed = [one for one in row["ids"] if one.lower() == wanted]
    if listed:
        return CatalogEntry(listed[0], row["config"], _unread(listed[0], row))
    tuned = [one for one in row.get("tuned", ()) if one.lower() == wanted]
    return CatalogEntry(row["ids"][0], row["config"], f"`{tuned[0]}` is tuned from {row['ids'][0]}") if tuned else None


def _unread(identifier: str, row: Mapping[str, Any]) -> str:
    """Rows that nobody could hold against a config.json say so, and lower what is said of their runs."""
    if not row["source"].startswith("not read"):
        return ""
    return f"no config.json of {identifier} was read: its dimensions are those that give the published parameter count"


def _by_rule(name: str) -> CatalogEntry | None:
    """Match the parts of a path, last first, by their keys."""
    parts = names.components(name)
    for depth, part in enumerate(parts):
        for spelling in names.spellings(part):
            line = _line(f'"={spelling.key}"')
            if line is not None:
                row = json.loads(line)
                identifier = _nearest(row["ids"], spelling.key)
                if spelling.sizes not in (None, names.sizes(identifier.split("/")[-1])):
                    continue  # "LLaMA-2.7B" and "Llama-2-7b" have one key
                return CatalogEntry(
                    identifier, row["config"], _reason(name, identifier, spelling, depth), spelling.stored
                )
    return None


def _nearest(identifiers: list[str], key: str) -> str:
    """The first id of this line that has the key itself, else by its shortened name, else the first id."""
    for reading in (names.literal, names.key):
        for identifier in identifiers:
            if reading(identifier.split("/")[-1]) == key:
                return identifier
    return identifiers[0]


def _reason(name: str, identifier: str, spelling: names.Spelling, depth: int) -> str:
    part = names.components(name)[depth]
    if spelling.stored is None and part.lower() == identifier.split("/")[-1].lower():
        return f"`{part}` is the repository name of {identifier}"
    return f"`{part}` read as {identifier}: {spelling.rule}"


def _line(needle: str) -> bytes | None:
    data = _lowered()
    at = data.find(needle.encode())
    if at < 0:
        return None
    start = data.rfind(b"\n", 0, at) + 1
    return datafile.text(FILE)[start : data.find(b"\n", at)]


@lru_cache(maxsize=1)
def _lowered() -> bytes:
    return datafile.text(FILE).lower()
