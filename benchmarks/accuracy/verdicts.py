"""Verdicts beside what happened: runs that died, and runs that fitted.

    python benchmarks/accuracy/verdicts.py

Rows that died: benchmarks/data/oom_runs.jsonl, each with its source. A run that fitted is every row of
measured_runs.jsonl that benchmarks/accuracy/stacks.py describes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.verdicts import table


def main() -> int:
    parser(__doc__).parse_args()
    lines, counts = table()
    for name, verdict, figures in lines:
        print(f"{name:28} {verdict:14} {figures}")
    print(", ".join(f"{name} {count}" for name, count in counts.most_common()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
