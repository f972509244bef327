"""Predictions beside published measurements.

python benchmarks/measured.py                 the closed form, max_allocated and the card's interval
python benchmarks/measured.py --simulate      the simulated step (one GPU only), max_allocated
python benchmarks/measured.py --list          rows left out, with the reason
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.stacks import LeftOut, Row, run_of
from memlint.memory.estimate import estimate
from memlint.run import Run

GIB = 1 << 30
ROWS = Path(__file__).resolve().parent / "data" / "measured_runs.jsonl"
DEVICE_METRICS = ("nvidia_smi_minus_idle_gib", "process_gib")


class Scored(NamedTuple):
    id: str
    measured: float  # GiB
    predicted: float
    phase: str
    device: float = 0.0  # measured on the card, 0 = not
    low: float = 0.0
    central: float = 0.0
    high: float = 0.0
    verdict: str = ""

    @property
    def error(self) -> float:
        return self.predicted / self.measured - 1


def rows(path: Path, low_confidence: bool = False) -> Iterable[Row]:
    with path.open(encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            if low_confidence or row["confidence"] != "low":
                yield row


def closed_form(run: Run, row: Row) -> Scored:
    found = estimate(run)
    if found.allocated_bytes is None:
        raise LeftOut("; ".join(f"{one.field}: {one.reason}" for one in found.unknown))
    other = row.get("other_metrics") or {}
    device = next((float(other[name]) for name in DEVICE_METRICS if name in other), 0.0)
    card = [(size or 0) / GIB for size in (found.device_low_bytes, found.device_bytes, found.device_high_bytes)]
    return Scored(
        row["id"], row["measured_gib"], found.allocated_bytes / GIB, found.peak_phase, device, *card, found.verdict
    )


def simulated(run: Run, row: Row) -> Scored:
    from memlint.simulation import UnsupportedRun, simulate

    try:
        step = simulate(run)
    except UnsupportedRun as error:
        raise LeftOut(str(error)) from error
    return Scored(row["id"], row["measured_gib"], step.peak / GIB, step.peak_phase)


def score(chosen: Iterable[Row], predict: Callable[[Run, Row], Scored]) -> tuple[list[Scored], list[tuple[str, str]]]:
    scored: list[Scored] = []
    left: list[tuple[str, str]] = []
    for row in chosen:
        if row["metric"] != "max_allocated":
            left.append((row["id"], f"metric {row['metric']}: not the tensors' figure (see the card)"))
            continue
        try:
            scored.append(predict(run_of(row), row))
        except LeftOut as reason:
            left.append((row["id"], str(reason)))
        except Exception as error:  # a defect of the estimator, listed so that it is seen
            left.append((row["id"], f"RAISED {type(error).__name__}: {error}"))
    return scored, left


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


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
