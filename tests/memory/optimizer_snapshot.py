"""Writes memlint/memory/optimizers.json from optimizers.yaml: `python tests/memory/optimizer_snapshot.py`."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

FOLDER = Path(__file__).parents[2] / "memlint" / "memory"


def compact() -> str:
    """The table as JSON; sources stay in the YAML."""
    table = yaml.safe_load((FOLDER / "optimizers.yaml").read_text(encoding="utf-8"))
    for entry in table.values():
        entry.pop("source")
    return json.dumps(table, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    (FOLDER / "optimizers.json").write_text(compact(), encoding="utf-8")
