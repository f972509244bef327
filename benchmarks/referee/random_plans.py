"""Random runs over their card: every plan that a finding offers, and every step of it, simulated as its file says it.

    python benchmarks/referee/random_plans.py [COUNT] [--seed N]      draw, plan, write, read back, compare estimates
    python benchmarks/referee/random_plans.py [COUNT] --run           and simulate what can be, and keep the results
    python benchmarks/referee/random_plans.py [COUNT] --several ...   runs of two to eight cards

A case is drawn from a seed: framework, model, method, stage, precision, packing, attention, evaluation and card, until
the config is over the budget. Each plan, and each of its steps alone, is written into the file in memory and read back.
Held: what was promised is what the written file is estimated at; the written file has no new error; and one step of
that run on fake tensors with the real model code (memlint simulate) fits the card wherever the estimate says so.
Kept by --run in benchmarks/data/random_plans.jsonl: simulated peaks of runs with all their layers (torch 2.13.0,
transformers 5.23.0, peft 0.21.2). Mixtures of experts are drawn with LAYERS layers: a whole one is no longer simulated
in seconds, and its layers are all alike.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.comparisons.random_plans import (
    RESULTS,
    Case,
    Changed,
    Key,
    Row,
    as_simulated,
    beside,
    changed,
    config_of,
    drawn,
    kept,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--several", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[Row] = []
    counts: Counter[str] = Counter()
    known = kept()
    for seed in range(given.seed, given.seed + given.count):
        case, analysis, analyser = drawn(seed, given.several)
        found = list(changed(case, analysis, analyser))
        counts["over"] += 1
        counts["with a plan that fits"] += any(one.whole and one.after.verdict == "fits" for one in found)
        print(f"{case.name}: {len(found)}", flush=True)
        for one in found:
            counts["written"] += 1
            if not one.keeps_its_promise:
                counts["BROKEN"] += 1
                print(f"  BROKEN: {one.title}: {one.promised} {one.after.device_high_bytes} {one.fresh}")
            rows += _compared(case, one, known, counts, given)
    print(counts)
    sizes = sorted(abs(row.error) for row in rows)
    broken = sum(not row.holds for row in rows)
    if sizes:
        plans = sum(row.after.verdict == "fits" for row in rows)
        said = f"median {median(sizes):.2%}, worst {sizes[-1]:.2%}, {broken} broken fits"
        print(f"{len(rows)} simulated, {plans} of them said to fit: {said}")
    return int(bool(counts["BROKEN"] or broken))


def _compared(
    case: Case, one: Changed, known: dict[Key, int], counts: Counter[str], given: argparse.Namespace
) -> Iterator[Row]:
    from memlint.simulation import UnsupportedRun

    key = (given.several, case.seed, one.title)
    if key not in known:
        if not given.run:
            return
        from benchmarks.referee.plan_steps import peak

        try:
            known[key] = peak(as_simulated(one.run), config_of(case, one))
        except UnsupportedRun as reason:
            counts[f"not simulated: {reason}"] += 1
            return
        except (RuntimeError, ValueError) as reason:  # an operator that fake tensors on the CPU do not take
            counts[f"not simulated: {str(reason)[:80]}"] += 1
            return
        with RESULTS.open("a", encoding="utf-8") as file:
            several = {"several": True} if given.several else {}
            file.write(json.dumps({**several, "seed": case.seed, "title": one.title, "peak": known[key]}) + "\n")
    row = beside(one, known[key])
    flag = "" if row.holds else "  BROKEN FIT"
    print(f"  {row.error:+7.2%} {row.simulated / 2**30:6.1f} GiB {one.after.verdict:13} {one.title}{flag}", flush=True)
    yield row


if __name__ == "__main__":
    raise SystemExit(main())
