"""Rewrites memlint/architectures/catalog.jsonl in its normal form: sorted, with the look-up keys of each line.

A key (see architectures/names.py) belongs to the line whose first id has it; a key that several lines
claim with equal right belongs to none. With --check, fails where the file is not in normal form.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from memlint.architectures import names  # noqa: E402

DATA = Path(__file__).parent.parent / "memlint" / "architectures" / "catalog.jsonl"


def keys(identifier: str) -> set[str]:
    return {names.key(identifier.split("/")[-1])}


def indexed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    owners: dict[str, set[int]] = {}
    first: dict[str, set[int]] = {}
    for number, row in enumerate(rows):
        for place, identifier in enumerate(row["ids"]):
            for key in keys(identifier):
                owners.setdefault(key, set()).add(number)
                if place == 0:
                    first.setdefault(key, set()).add(number)
    for number, row in enumerate(rows):
        mine = [key for key, claims in owners.items() if (first.get(key) or claims) == {number}]
        row["keys"] = sorted("=" + key for key in mine if len(key) >= 3) + sorted(
            "=" + name for name in row.get("nicknames", ())
        )
    return rows


def main() -> int:
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    rows = indexed(sorted(rows, key=lambda row: str(row["ids"][0]).lower()))
    ordered = [
        {name: row[name] for name in ("ids", "keys", "nicknames", "config", "source", "parameters") if name in row}
        for row in rows
    ]
    text = "".join(json.dumps(row, separators=(",", ":"), ensure_ascii=True) + "\n" for row in ordered)
    if "--check" in sys.argv:
        return 0 if DATA.read_text(encoding="utf-8") == text else 1
    DATA.write_text(text, encoding="utf-8")
    print(f"{len(rows)} configurations, {sum(len(row['ids']) for row in rows)} ids, {len(text):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
