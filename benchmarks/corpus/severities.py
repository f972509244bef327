"""How often memlint is right, by severity: what data/severity_precision.tsv holds.

    python benchmarks/corpus/severities.py

A line of the table is a rule under one severity: its findings over public configs, without a card and on 8 x
A100-80GB, each judged once against the source of the framework that it speaks of (LLaMA-Factory 0.9.5, axolotl 0.19.0,
deepspeed 0.19.8, transformers 5.23.0, trl 1.16.0), and how many were right. All errors were judged; of warnings and
infos a sample. Exit code 1 where a severity is below its bar.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from benchmarks.corpus.corpus_findings import DATA, read_tsv

TABLE = DATA / "severity_precision.tsv"
BARS = {"error": 98.0, "warning": 97.0, "info": 95.0}  # per cent that must be right


class Judged(NamedTuple):
    severity: str
    rule: str
    findings: int
    right: int
    wrong: int
    note: str


def judged() -> list[Judged]:
    """The table's lines."""
    return [Judged(severity, rule, *map(int, numbers), note) for severity, rule, *numbers, note in read_tsv(TABLE)]


def shares(rows: list[Judged]) -> dict[str, tuple[int, int, float]]:
    """Findings judged, those that were right, and the per cent of them, for each severity."""
    right, wrong = Counter[str](), Counter[str]()
    for row in rows:
        right[row.severity] += row.right
        wrong[row.severity] += row.wrong
    totals = {severity: (right[severity] + wrong[severity], right[severity]) for severity in BARS}
    return {severity: (total, good, 100 * good / total) for severity, (total, good) in totals.items() if total}


def main() -> int:
    parser(__doc__).parse_args()
    found = shares(judged())
    for severity, (total, good, share) in found.items():
        print(f"{severity:8} {good} of {total} judged are right: {share:.1f} % (bar {BARS[severity]:.0f} %)")
    return int(any(share < BARS[severity] for severity, (_, _, share) in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
