"""Writes memlint/memory/families/index.json: the module of each row, by the names that lead to the row.

python tools/family_index.py [--check]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

from generated import ROOT, settle

from memlint.memory.families.traits import Family

FOLDER = ROOT / "memlint" / "memory" / "families"
DATA = FOLDER / "index.json"


def text() -> str:
    found = list(_rows())
    index = {
        "model_types": {name: module for module, row in found for name in row.model_types},
        "classes": {name: module for module, row in found for name in row.classes},
    }
    return json.dumps(index, indent=1, sort_keys=True) + "\n"


def _rows() -> Iterator[tuple[str, Family]]:
    """Each row with the name of its module."""
    for module in sorted(path.stem for path in Path(FOLDER).glob("*.py")):
        rows: Sequence[Family] = getattr(import_module(f"memlint.memory.families.{module}"), "ROWS", ())
        yield from ((module, row) for row in rows)


if __name__ == "__main__":
    sys.exit(settle({DATA: text()}, sys.argv[1:]))
