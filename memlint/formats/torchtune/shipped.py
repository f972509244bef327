"""The configs that torchtune ships under the names of `tune ls`: what memlint reads of them.

shipped_configs.jsonl is from recipes/configs in the wheels of 0.3.0 to 0.6.1 (tools/torchtune_configs.py)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

from memlint.formats.torchtune.recipes import NEWEST, Release
from memlint.source.document import Document

_FILE = os.path.join(os.path.dirname(__file__), "shipped_configs.jsonl")


def shipped(name: str, stated: Release) -> Document | None:
    """The values of the config `name` in the release that somebody states, else in the newest; None where that has none
    of the name. A release that is stated in part (`0.3`) is the last that begins so."""
    release = (stated or NEWEST)[: len(NEWEST)]
    found = None
    for line in _lines(name):
        first, last = (tuple(map(int, one.split(".")))[: len(release)] for one in line["releases"])
        if first <= release <= last:
            found = line["values"]
    if found is None:
        return None
    text = ".".join(map(str, release))
    return Document(f"torchtune {text} recipes/configs/{name}.yaml", "", "json", "omegaconf", found, {})


def _lines(name: str) -> Iterator[dict[str, Any]]:
    """What the file has of the name, the oldest release first; other lines are not parsed."""
    start = f'{{"name":{json.dumps(name)},'.encode()
    with open(_FILE, "rb") as file:
        yield from (json.loads(line) for line in file if line.startswith(start))
