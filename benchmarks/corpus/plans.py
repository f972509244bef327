"""Plans for a corpus of configs: `python benchmarks/corpus/plans.py FOLDER [--sample N] [--seed N] [--setting NAME]`.

FOLDER holds one folder per kind (llamafactory, trainer, axolotl, other) of repositories. Every training run whose model
is known and which is over the budget is planned for, on one card of 24 GB, four of them, and eight cards of 80 GB.
Printed for each setting: how many runs get a plan that can be written and fits, of those for which any combination of
changes fits; how many keep the training result; promises (the figure of every fix beside that of the changed file, read
anew); plans whose file is another run than was planned, in a field that memory reads; refusals without a reason; and
the time of the search.
"""

from __future__ import annotations

import argparse
import collections
import gc
import os
import random
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from memlint.cli import GC_THRESHOLD
from memlint.findings import Fix
from memlint.fixes.plan_options import options
from memlint.fixes.plan_search import SearchHooks
from memlint.fixes.planner import plans
from memlint.hardware import find
from memlint.lint.analyse_file import FileAnalyser, uniform_analyser
from memlint.memory.canonical_run import canonical
from memlint.ruleset.engine import Analysis, Engine
from memlint.ruleset.shipped import shipped
from memlint.run import Origin, Run, differences

KINDS = ("llamafactory", "trainer", "axolotl", "other")
SETTINGS = {"RTX4090 x1": ("RTX4090", 1), "RTX4090 x4": ("RTX4090", 4), "A100-80GB x8": ("A100-80GB", 8)}
_ASSUMED = Origin("setting", detail="assumed by the benchmark")
_ENGINE = Engine(shipped())
_SECTIONS = tuple(name for name, default in Run._field_defaults.items() if hasattr(default, "_fields"))
Counts = collections.Counter[str]


class Planned(NamedTuple):
    """What one run over its budget gets. `any_fits`: a combination of changes fits, whether or not it can be written.
    `told`: it is told how to start it: with segments that grow, or on one of its cards."""

    name: str
    fits: bool
    riskless: bool
    any_fits: bool
    seconds: float
    titles: tuple[str, ...]
    told: bool


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="so many files of each kind")
    parser.add_argument("--seed", type=int, default=0, help="with which a sample is drawn")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS), help="may be repeated (default: all)")
    parser.add_argument("-v", action="store_true", help="name the runs that get no plan, and what is broken")
    given = parser.parse_args()
    gc.set_threshold(GC_THRESHOLD)  # as the console script does
    paths = [path for kind in KINDS for path in files(given.folder.resolve() / kind, given.sample, given.seed)]
    tables = {name: _setting(name, paths, given.v) for name in given.setting or SETTINGS}
    if {"RTX4090 x1", "RTX4090 x4"} <= set(tables):
        _more_cards(tables["RTX4090 x1"], tables["RTX4090 x4"], given.v)
    return 0


def files(folder: Path, sample: int, seed: int = 0) -> list[Path]:
    """The configs below a folder, or a sample of them."""
    found = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml", ".json") and path.is_file())
    return sorted(random.Random(seed).sample(found, sample)) if 0 < sample < len(found) else found


def _setting(name: str, paths: list[Path], verbose: bool) -> dict[str, Planned]:
    """Plans for every run, by file and index, with a summary printed."""
    counts: Counts = collections.Counter()
    rows: dict[str, Planned] = {}
    for path, analyser, analysis in _analyses(*SETTINGS[name], paths):
        for index in range(len(analysis.runs)):
            planned = _planned(path, analyser, analysis, index, counts, verbose)
            if planned is not None:
                rows[planned.name] = planned
        _check_fixes(path, analyser, analysis, counts, verbose)
    _print(name, rows, counts, verbose)
    return rows


def _planned(
    path: Path, analyser: FileAnalyser, analysis: Analysis, index: int, counts: Counts, verbose: bool
) -> Planned | None:
    run, before = analysis.runs[index], analysis.estimates[index]
    over = before.verdict not in ("fits", "unknown") and before.budget_bytes and run.purpose == "train"
    if not over or before.allocated_bytes is None:
        return None
    estimator = analyser.engine_for(str(path)).estimator
    judged = analyser.judged(analysis, analyser.workspaces.of(str(path)))
    start = time.process_time()
    known = options(judged.analysis, index, estimator, judged.reanalyse)
    seconds = time.process_time() - start
    fitting = [option for option in known.options if option.plan.estimate.verdict == "fits"]
    any_fits = bool(fitting) or bool(plans(run, before, SearchHooks(estimator)))
    titles = tuple("; ".join(step.title for step in option.plan.steps) for option in fitting)
    riskless = any(option.plan.risk == 0 for option in fitting)
    for option in fitting:
        promised = option.plan.estimate.device_high_bytes
        counts["plans"] += 1
        after = option.tried.after
        if after is None or differences(canonical(option.plan.run), canonical(after.runs[index]), _SECTIONS):
            counts["read otherwise"] += 1
            print(f"  not the planned run: {path}: {titles}") if verbose else None
        if _read_anew(path, analyser, option.tried.contents, index) != promised:
            counts["broken"] += 1
            print(f"  broken promise: {path}: {titles}") if verbose else None
    told = any(word in fix.title for fix in known.advice for word in ("one of these cards", "expandable_segments"))
    return Planned(f"{path} {index}", bool(fitting), riskless, any_fits, seconds, titles, told)


def _read_anew(path: Path, analyser: FileAnalyser, contents: Mapping[str, bytes], index: int) -> int | None:
    """The upper end of the interval of the changed files, read by an analyser that knows nothing of the plan."""
    workspace = analyser.workspaces.of(str(path)).overlaid(contents)
    fresh = FileAnalyser(analyser.workspaces, analyser.engine_for, analyser.context_for)
    for document in workspace.documents(str(path)):
        analysis = fresh.analyse_document(document, workspace, fixes=False)
        if index < len(analysis.estimates):
            return analysis.estimates[index].device_high_bytes
    return None


def _check_fixes(path: Path, analyser: FileAnalyser, analysis: Analysis, counts: Counts, verbose: bool) -> None:
    """The promises and refusals of every fix of every finding."""
    for finding in analyser.with_fixes(analysis, analyser.workspaces.of(str(path))):
        for fix in finding.fixes:
            kind = _judged(path, analyser, analysis, fix)
            counts[kind] += 1
            if verbose and kind in ("fix broken", "refused without a reason"):
                print(f"  {kind}: {path}: {finding.rule}: {fix.title}")


def _judged(path: Path, analyser: FileAnalyser, analysis: Analysis, fix: Fix) -> str:
    if not fix.patches:
        return "refused with a reason" if fix.note or not fix.changes else "refused without a reason"
    if fix.after is None or len(analysis.runs) != 1:
        return "fix without a figure"
    from memlint.fixes.attempt import attempt

    again = analyser.reanalysis(analysis, analyser.workspaces.of(str(path)))
    contents = attempt(analysis, fix.edits, None, again).contents
    return "fix kept" if _read_anew(path, analyser, contents, 0) == fix.after.high else "fix broken"


def _print(name: str, rows: Mapping[str, Planned], counts: Counts, verbose: bool) -> None:
    over, fits = len(rows), sum(row.fits for row in rows.values())
    possible = sum(row.any_fits for row in rows.values())
    riskless = sum(row.riskless for row in rows.values())
    print(f"{name}: {over} runs over the budget")
    print(
        f"  a plan that can be written and fits: {fits} ({_percent(fits, possible)} of {possible} where any plan fits)"
    )
    print(f"  without a risk for the result: {riskless}")
    print(f"  promises of plans: {counts['plans']}, broken {counts['broken']}")
    print(f"  plans whose file is another run than was planned: {counts['read otherwise']}")
    print(f"  promises of all fixes: {counts['fix kept']} kept, {counts['fix broken']} broken")
    refused = counts["refused with a reason"], counts["refused without a reason"]
    print(f"  not written: {refused[0]} with a reason, {refused[1]} without")
    times = sorted(1000 * row.seconds for row in rows.values())
    if times:
        p50, p95 = (times[int(share * (len(times) - 1))] for share in (0.5, 0.95))
        print(f"  search with reading back: p50 {p50:.1f} ms, p95 {p95:.1f} ms, most {times[-1]:.1f} ms")
    for row in rows.values():
        if verbose and not row.fits:
            print(f"  none: {row.name}{' (one fits that cannot be written)' if row.any_fits else ''}")


def _more_cards(one: Mapping[str, Planned], four: Mapping[str, Planned], verbose: bool) -> None:
    """Runs that have a plan without risk on one card, and none on four."""
    lost = [name for name, row in one.items() if row.riskless and name in four and not four[name].riskless]
    told = sum(four[name].told for name in lost)
    print(f"a plan without risk on one card and none on four: {len(lost)}, of which {told} are told how to start it")
    for name in lost if verbose else ():
        print(f"  {name}: {one[name].titles} / {four[name].titles}")


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.1f} %"


def _analyses(card: str, gpus: int, paths: list[Path]) -> Iterator[tuple[Path, FileAnalyser, Analysis]]:
    facts = {"gpu": find(card), "gpu_origin": _ASSUMED, "gpus": gpus, "gpus_origin": _ASSUMED, "gpus_per_node": gpus}
    analysers: dict[str, FileAnalyser] = {}
    for path in paths:
        root = os.path.dirname(str(path))
        if root not in analysers:
            analysers[root] = uniform_analyser(_ENGINE, facts, cwd=root)
        for analysis in analysers[root].analyse(str(path), fixes=False).analyses:
            yield path, analysers[root], analysis


if __name__ == "__main__":
    sys.exit(main())
