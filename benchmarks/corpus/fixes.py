"""Plans for a corpus of configs: `python benchmarks/corpus/fixes.py FOLDER [--kind KIND] [--sample N] [-v]`.

FOLDER holds one folder per kind (llamafactory, trainer, axolotl) of repositories. Every training run whose model is
known and which is over the budget of one card of 24, 48 and 80 GB is planned for. Printed: the share with a plan that
fits, as written into the file and read back; laws kept and broken in writing; and how long planning takes.
"""

from __future__ import annotations

import argparse
import collections
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memlint.fixes.attach import edit_writer
from memlint.fixes.attempt import attempt, check_finding
from memlint.fixes.planner import SearchHooks, plans
from memlint.hardware import find
from memlint.lint.analyse_file import FileAnalyser, uniform_analyser
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin

KINDS = ("llamafactory", "trainer", "axolotl")
OVER = ("MEM001", "MEM002", "MEM005")
CARDS = ("RTX4090", "L40S", "A100-80GB")
_ASSUMED = Origin("setting", detail="assumed by the benchmark")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="so many files of each kind, drawn with a fixed seed")
    parser.add_argument("--kind", action="append", choices=KINDS, help="this kind alone; may be repeated")
    parser.add_argument("-v", action="store_true", help="name the runs that get no plan")
    given = parser.parse_args()
    paths = [path for kind in given.kind or KINDS for path in _files(given.folder / kind, given.sample)]
    for card in CARDS:
        _card(card, paths, given.v)
    return 0


def _files(folder: Path, sample: int) -> list[Path]:
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json") and path.is_file())
    return sorted(random.Random(0).sample(found, sample)) if 0 < sample < len(found) else found


def _card(card: str, paths: list[Path], verbose: bool) -> None:
    counts: collections.Counter[str] = collections.Counter()
    times: list[float] = []
    for path, analyser, analysis in _analyses(card, paths):
        for index, run in enumerate(analysis.runs):
            before = analysis.estimates[index]
            over = before.verdict not in ("fits", "unknown") and before.budget_bytes and run.purpose == "train"
            if not over or before.allocated_bytes is None or analysis.format is None or analysis.parsed is None:
                continue
            counts["over"] += 1
            start = time.perf_counter()
            found = plans(run, before, SearchHooks(analyser.engine_of(str(path)).estimator, edit_writer(analysis)), 5)
            times.append(time.perf_counter() - start)
            kept = _written(analysis, index, found, analyser, path, counts)
            counts["planned"] += bool(kept)
            counts[f"with {min(kept, 3)}"] += 1
            if verbose and not kept:
                print(f"  none: {path} ({len(found)} before writing)")
    times.sort()
    share = 100 * counts["planned"] / max(1, counts["over"])
    print(f"{card}: {counts['over']} runs over the budget, {counts['planned']} with a plan that fits ({share:.0f} %)")
    shares = ", ".join(f"{number}: {counts[f'with {number}']}" for number in range(4))
    print(f"  plans a run: {shares}")
    print(f"  written: {counts['kept']} kept laws 1 - 5, {counts['refused']} refused, {counts['broken']} broke one")
    sixth = f"{counts['sixth kept']} keep law 6, {counts['sixth refused']} would leave or bring a finding: not offered"
    print(f"  of those that fit: {sixth}")
    if times:
        middle, high = times[len(times) // 2], times[int(0.95 * (len(times) - 1))]
        print(f"  planning: p50 {1000 * middle:.1f} ms, p95 {1000 * high:.1f} ms, most {1000 * times[-1]:.1f} ms")


def _written(
    analysis: Analysis,
    index: int,
    found: tuple[Any, ...],
    analyser: FileAnalyser,
    path: Path,
    counts: collections.Counter[str],
) -> int:
    """How many plans fit as files: written in memory, read back, estimated."""
    kept = 0
    again = analyser.reanalysis(analysis, analyser.workspaces.of(str(path)))
    for plan in found:
        edits = edit_writer(analysis)(analysis.runs[index], plan.changes)
        if not edits:
            counts["refused"] += 1
            continue
        tried = attempt(analysis, edits, None, again)
        counts["broken" if tried.broken else "refused" if tried.refused else "kept"] += 1
        if tried.holds and tried.after is not None and len(tried.after.estimates) > index:
            fits = tried.after.estimates[index].verdict == "fits"
            kept += fits
            gone = next((one.finding for one in analysis.found if one.run == index and one.finding.rule in OVER), None)
            if fits and gone is not None:
                counts["sixth kept" if check_finding(tried, analysis, gone).holds else "sixth refused"] += 1
    return kept


def _analyses(card: str, paths: list[Path]) -> Iterator[tuple[Path, FileAnalyser, Analysis]]:
    engine = Engine(shipped())
    facts = {"gpu": find(card), "gpu_origin": _ASSUMED, "gpus": 1, "gpus_origin": _ASSUMED, "gpus_per_node": 1}
    analysers: dict[str, FileAnalyser] = {}
    for path in paths:
        root = os.path.dirname(str(path))
        if root not in analysers:
            analysers[root] = uniform_analyser(engine, facts, cwd=root)
        for analysis in analysers[root].analyse(str(path), fixes=False).analyses:
            yield path, analysers[root], analysis


if __name__ == "__main__":
    sys.exit(main())
