"""Public threads about running out of memory: the verdict on what died, and whether the fix that helped is offered.

    python benchmarks/accuracy/threads.py [-v]     the table; -v prints every suggestion

data/threads.jsonl holds the facts of each thread as files of one of memlint's formats (`files`), what was varied
(`runs`), what helped (`helped`, kinds of `KINDS`) and what the thread leaves open and was filled in (`assumed`).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.threads import GIB, judged, lines


def _print_all() -> None:
    for thread, runs in judged():
        for one in runs:
            span = f"{one.low:.1f} to {one.high:.1f} of {one.usable:.1f} GiB" if one.high else one.reason
            print(f"{thread['thread']:38} {one.outcome:7} {one.verdict:14} {span}")
        for fix in runs[0].fixes:
            after = f"{fix.after.figure / GIB:.1f} GiB" if fix.after else "?"
            print(f"    {fix.title} -> {after}, {fix.verdict_after}")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print every row")
    if arguments.parse_args().verbose:
        _print_all()
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
