"""Predictions beside published measurements.

python benchmarks/accuracy/measured.py                 the closed form, max_allocated and the card's interval
python benchmarks/accuracy/measured.py --simulate      the simulated step (one GPU only), max_allocated
python benchmarks/accuracy/measured.py --list          rows left out, with the reason
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memlint.run import Run
from tests.comparisons.measured import GIB, ROWS, Scored, closed_form, quantile, rows, score
from tests.comparisons.stacks import LeftOut, Row


def simulated(run: Run, row: Row) -> Scored:
    from memlint.simulation import UnsupportedRun, simulate

    try:
        step = simulate(run)
    except UnsupportedRun as error:
        raise LeftOut(str(error)) from error
    return Scored(row["id"], row["measured_gib"], step.peak / GIB, step.peak_phase)


def summary(name: str, scored: list[Scored]) -> str:
    sizes = [abs(one.error) for one in scored]
    worst_under = min((one.error for one in scored), default=0.0)
    return (
        f"{name:28} {len(scored):4} rows   median {median(sizes):6.2%}   p90 {quantile(sizes, 0.9):6.2%}   "
        f"worst {max(sizes):6.2%}   worst under {worst_under:7.2%}"
    )


def print_table(scored: list[Scored]) -> None:
    for one in scored:
        card = f"  card {one.device:7.2f} in [{one.low:7.2f}, {one.high:7.2f}]" if one.device else ""
        print(f"{one.id:36} {one.measured:8.2f} {one.predicted:8.2f} {one.error:8.2%}  {one.phase:15}{card}")


def print_card(scored: list[Scored]) -> None:
    both = [one for one in scored if one.device]
    if not both:
        return
    covered = sum(one.low <= one.device <= one.high for one in both)
    width = median((one.high - one.low) / one.device for one in both)
    dead = sum(one.verdict == "out_of_memory" for one in scored)
    print(f"card: {len(both)} rows, interval covers {covered / len(both):.1%}, median width {width:.1%}")
    print(f"verdicts on runs that fitted: {dead} of {len(scored)} out_of_memory")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--list", action="store_true", help="rows left out, with the reason")
    parser.add_argument("--only", default="", help="ids that start so")
    options = parser.parse_args(arguments)
    chosen = [row for row in rows(options.rows) if row["id"].startswith(options.only)]
    scored, left = score(chosen, simulated if options.simulate else closed_form)
    print_table(scored)
    groups: dict[str, list[Scored]] = {}
    for one in scored:
        groups.setdefault(one.id.split("-")[0], []).append(one)
    for name, group in [*groups.items(), ("all", scored)]:
        if group:
            print(summary(name, group))
    print_card(scored)
    reasons: dict[str, list[str]] = {}
    for name, reason in left:
        reasons.setdefault(reason, []).append(name)
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"left out {len(names):4}: {reason}" + (f" ({', '.join(names)})" if options.list else ""))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
