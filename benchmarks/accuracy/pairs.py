"""Pairs of runs that differ in one knob: the predicted difference beside the real one.

    python benchmarks/accuracy/pairs.py            all pairs
    python benchmarks/accuracy/pairs.py --write    simulate the pairs of data/pairs.jsonl again

Real differences come from published measurements (batch, fused loss, attention, quantisation, optimizer-step bound
full fine-tuning excepted: both of its runs peak at the same point), from the sharding grid (ZeRO and FSDP settings) and
from simulated steps of a middle-sized model (every knob).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.command import parser
from tests.comparisons.measured import GIB
from tests.comparisons.pairs import DATA, cases, every, lines


def write() -> None:
    from memlint.simulation import simulate

    known: dict[int, int] = {}
    with DATA.open("w", encoding="utf-8") as file:
        for knob, name, config, *runs in cases():
            peaks = []
            for run in runs:
                known.setdefault(hash(run[1:-1].__repr__()), simulate(run, config).peak)
                peaks.append(known[hash(run[1:-1].__repr__())])
            file.write(json.dumps({"knob": knob, "name": name, "peaks": peaks}) + "\n")


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--write", action="store_true", help="simulate the pairs again and keep them")
    if arguments.parse_args().write:
        write()
    for pair in sorted(every(), key=lambda pair: -abs(pair.error)):
        unit = GIB if max(pair.real) > 1 << 20 else 1
        real, predicted = ((b - a) / unit for a, b in (pair.real, pair.predicted))
        print(f"{pair.knob:24} {pair.name:60} real {real:+8.3f} GiB predicted {predicted:+8.3f}  {pair.error:+.1%}")
    print("\n".join(lines()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
