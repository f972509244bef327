"""Every comparison of the estimate with something that is not the estimate.

    python benchmarks/accuracy/page.py            print the tables
    python benchmarks/accuracy/page.py --write    and write docs/accuracy.md
    python benchmarks/accuracy/page.py --check    exit 1 where docs/accuracy.md says something else

Referees' results are kept in benchmarks/data and benchmarks/referee/sharding/results.jsonl, so nothing here needs
PyTorch, a GPU or a network: the estimates are made anew, which takes seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.page import PAGE, page


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--check", action="store_true", help="exit 1 where the page says something else")
    arguments.add_argument("--write", action="store_true", help="write docs/accuracy.md")
    options = arguments.parse_args()
    text = page()
    if options.check:
        return 0 if PAGE.read_text(encoding="utf-8") == text else 1
    if options.write:
        PAGE.write_text(text, encoding="utf-8")
    print(text, end="")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
