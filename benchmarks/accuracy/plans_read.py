"""Plans read beside what an expert does: `python benchmarks/accuracy/plans_read.py`.

data/plans_read.jsonl has a row for each run over its budget: what experts do first (`expert`) with its `source` (the
framework's documentation, or the thread in which it helped), what memlint offers (`offered`), and the judgement of a
reader before and after moves that were missing were added: agree, better or worse, with the reason (`why`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROWS = Path(__file__).resolve().parents[1] / "data" / "plans_read.jsonl"
JUDGEMENTS = ("agree", "better", "worse")


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text(encoding="utf-8").splitlines()]


def lines(read: list[dict[str, Any]]) -> Iterator[str]:
    """The table, then how many of each judgement."""
    yield "| run | cards | an expert | memlint | before | after | why |"
    yield "|---|---|---|---|---|---|---|"
    for row in read:
        offered = " / ".join(row["offered"])
        cells = (row["run"], row["cards"], row["expert"], offered, row["before"], row["after"], row["why"])
        yield f"| {' | '.join(cells)} |"
    yield ""
    for time in ("before", "after"):
        counts = Counter(row[time] for row in read)
        yield f"{time}: " + ", ".join(f"{counts[one]} {one}" for one in JUDGEMENTS) + f" of {len(read)}"


if __name__ == "__main__":
    print("\n".join(lines(rows())))
