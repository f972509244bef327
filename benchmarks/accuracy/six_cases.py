"""Six cases that other estimators were asked, with memlint's answer. Figures of the others: data/peers.json."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.six_cases import lines


def main() -> int:
    parser(__doc__).parse_args()
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
