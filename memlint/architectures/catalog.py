"""The embedded catalog: catalog.jsonl, one configuration per line with all ids that share it.

A line is found by searching the file's bytes for the id or key, so that one look-up parses one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.architectures import datafile
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


def configurations() -> Iterator[Mapping[str, Any]]:
    """The configurations of all models in the catalog."""
    for line in datafile.text(FILE).split(b"\n"):
        if line:
            yield json.loads(line)["config"]


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
    data = datafile.text(FILE)
    line = _listing(identifier, data) or _listing(identifier.lower(), data.lower())
    if line is None:
        return None
    row = json.loads(line)
    wanted = identifier.lower()
    listed = [one for one in row["ids"] if one.lower() == wanted]
    if listed:
        return CatalogEntry(listed[0], row["config"], _uncertainty(listed[0], row))
    tuned = [one for one in row.get("tuned", ()) if one.lower() == wanted]
    return CatalogEntry(row["ids"][0], row["config"], f"`{tuned[0]}` is tuned from {row['ids'][0]}") if tuned else None


def _uncertainty(identifier: str, row: Mapping[str, Any]) -> str:
    """Why a row is uncertain: its config.json was not read. "" for other rows."""
    if not row["source"].startswith("not read"):
        return ""
    return f"no config.json of {identifier} was read: its dimensions are those that give the published parameter count"


def _by_rule(name: str) -> CatalogEntry | None:
    """The entry that `name` leads to by the rules of names.py, where the name itself is not listed."""
    from memlint.architectures.catalog_names import by_rule

    data = datafile.text(FILE)
    found = by_rule(name, lambda key: _row(_line(data.find(f'"={key}"'.encode()), data)))
    return None if found is None else CatalogEntry(*found)


def _row(line: bytes | None) -> Mapping[str, Any] | None:
    found: Mapping[str, Any] | None = None if line is None else json.loads(line)
    return found


def _listing(identifier: str, data: bytes) -> bytes | None:
    """The line that lists `identifier`: as an item of a list, not as the value of a field."""
    quoted = f'"{identifier}"'.encode()
    at = data.find(quoted)
    while at > 0 and data[at - 1] not in b"[,":
        at = data.find(quoted, at + 1)
    return _line(at, data)


def _line(at: int, data: bytes) -> bytes | None:
    """The catalog's line at a place in `data`: the catalog, or the catalog in lower case. None where `at` is -1."""
    if at < 0:
        return None
    start = data.rfind(b"\n", 0, at) + 1
    return datafile.text(FILE)[start : data.find(b"\n", at)]
