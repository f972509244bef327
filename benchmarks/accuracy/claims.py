"""Public configs whose authors name the cards that they ran on or died on: what memlint says of them.

    python benchmarks/accuracy/claims.py [-v]     the tables; -v prints every row

A line of data/claims.jsonl is one config: its facts as files of memlint's formats (`files`), the cards, what its author
says (`claim`, in a few words, at `url`), what that leaves open and was filled in (`assumed`), what happened (`runs`,
with the GiB that are named, if any: of tensors, reserved or shown by the card, seldom said which), and `why` memlint
differs where it does.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.claims import answers, lines


def _print_all() -> None:
    for claim, one in answers():
        shown = f", {one.shown:g} named" if one.shown else ""
        span = f"{one.low:.1f} to {one.high:.1f} of {one.usable:.1f} GiB{shown}" if one.high else claim["why"]
        print(f"{claim['source']:52} {one.outcome:7} {one.said:8} {claim['gpus']} x {claim['gpu']:12} {span}")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="print every row")
    if arguments.parse_args().verbose:
        _print_all()
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
