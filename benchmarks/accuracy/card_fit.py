"""The card's interval on rows that took no part in fitting it.

    python benchmarks/accuracy/card_fit.py [-v]     -v: every row outside of its interval, with the cause
    python benchmarks/accuracy/card_fit.py --fit    terms and margins from all the rows, as device.json has them

Fitting is a procedure, so that it can be repeated on any part of the rows. Terms start at round numbers and move one at
a time to the least mean squared error (margins follow the worst rows, so that these must count), with the *measured*
tensors underneath: an error of the tensors' figure must not end up in the allocator's terms. Margins are quantiles of
what is left, with the predicted tensors, where terms are fitted without any run of a row's model: what a fit is worth
on a model that it has not seen. They are the same for all classes of runs; less than the floor is never claimed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from memlint.memory.card import device
from tests.comparisons.card_fit import Shown, _short, _spans, each_left_out, file, fit, lines, shown


def _print_misses(every: Sequence[Shown]) -> None:
    parts = {"shipped": _spans(every, device.constants())}
    parts |= {f"without {_short(name)}": part for name, part in each_left_out(file).items()}
    for label, part in parts.items():
        for one, card in part:
            if not card.low <= one.shown <= card.high:
                off = one.shown / (card.high if one.shown > card.high else card.low) - 1
                tensors = one.allocated / one.measured - 1
                print(f"{label:48} {one.id:34} {card.kind:15} {off:+.1%} beyond, tensors predicted {tensors:+.1%}")


def _print_fit(every: Sequence[Shown]) -> None:
    table = fit(every)
    for name, entry in {**table["terms"], "margins": table["margins"]}.items():
        rounded = {key: round(value, 3) for key, value in entry.items() if isinstance(value, float) and value}
        print(name, json.dumps(rounded))


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("-v", "--verbose", action="store_true", help="every row outside of its interval")
    arguments.add_argument("--fit", action="store_true", help="terms and margins from all the rows")
    options = arguments.parse_args()
    if options.fit:
        _print_fit(shown())
        return 0
    if options.verbose:
        _print_misses(shown())
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
