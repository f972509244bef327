"""The tables of keys that formats have, for the tools that make pages and descriptions of them."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memlint.formats.keys import Keys

ROOT = Path(__file__).parent.parent
FORMATS = ROOT / "memlint" / "formats"
SCHEMAS = ROOT / "schemas"

Schema = dict[str, Any]


class Table(NamedTuple):
    """A table of a format. `layout` is that of `keys_LAYOUT.py`, whose schema is `$defs/LAYOUT`; "" for `keys.py`."""

    format: str
    layout: str
    keys: Keys


def tables() -> Iterator[Table]:
    """`KEYS` of every `memlint/formats/FORMAT/keys.py` and `keys_LAYOUT.py`, by format."""
    for path in sorted(FORMATS.glob("*/keys*.py")):
        name = path.parent.name
        if (path.parent / "format.py").is_file() and (SCHEMAS / f"{name}.json").is_file():
            module = importlib.import_module(f"memlint.formats.{name}.{path.stem}")
            yield Table(name, path.stem.removeprefix("keys").lstrip("_"), module.KEYS)


def schema_of(name: str) -> Schema:
    """schemas/NAME.json."""
    loaded: Schema = json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded
