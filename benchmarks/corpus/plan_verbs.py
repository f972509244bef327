"""One plan in three verbs: `python benchmarks/corpus/plan_verbs.py FOLDER [--runs N] [--seed N] [--setting NAME]`.

With `--runs 40` so many files with one run over the budget are drawn for each setting, which takes a few minutes.
FOLDER is laid out as for plans.py, and the cards are those of plans.py. For every file with one run over the budget,
and for N = 1 to 3, the patch of `plan --diff N`, that of `fix --plan N --diff` and the patches of the N-th plan that
`check` shows are made by the functions that the verbs call. Printed: of the plans that any verb has, the share in
which the three write the same bytes. `fix` goes on until no finding about memory is left, so that files with several
such runs are counted apart.
"""

from __future__ import annotations

import argparse
import collections
import gc
import random
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.corpus.plans import KINDS, SETTINGS, files
from memlint.cli import GC_THRESHOLD
from memlint.commands import fix as fix_verb
from memlint.commands import options
from memlint.findings import Fix, Patch
from memlint.fixes.edits.apply import apply
from memlint.fixes.edits.reread import encode
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.laws import identity
from memlint.fixes.written_plans import main_finding
from memlint.lint.analyse_file import FileAnalysis
from memlint.lint.fix_files import FixRequest, fix_files, linter_maker
from memlint.lint.linter import Linter
from memlint.lint.plans import PlanRequest, plan_targets, plans_of
from memlint.lint.request import LintRequest
from memlint.ruleset.engine import Analysis
from memlint.source.document import Document

NUMBERS = (1, 2, 3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sample", type=int, default=0, help="so many files of each kind")
    parser.add_argument("--runs", type=int, default=0, help="so many files with one run over")
    parser.add_argument("--seed", type=int, default=0, help="with which a sample is drawn")
    parser.add_argument("--setting", action="append", choices=list(SETTINGS), help="may be repeated (default: all)")
    parser.add_argument("-v", action="store_true", help="name the plans that differ, and how")
    given = parser.parse_args()
    gc.set_threshold(GC_THRESHOLD)  # as the console script does
    paths = [str(path) for kind in KINDS for path in files(given.folder / kind, given.sample, given.seed)]
    random.Random(given.seed).shuffle(paths)
    same = [_setting(name, paths, given.runs, given.v) for name in given.setting or SETTINGS]
    return int(not all(same))


def _setting(name: str, paths: list[str], runs: int, verbose: bool) -> bool:
    """Counts the plans of one setting and prints the counts. Whether all are the same in the three verbs."""
    card, number = SETTINGS[name]
    verbs = Verbs(("--gpu", card, "--gpus", str(number)))
    counts: collections.Counter[str] = collections.Counter()
    for path in paths:
        for plan, outcome in verbs.outcomes(path):
            counts[outcome] += 1
            if verbose and outcome not in ("same", "several runs"):
                print(f"  {outcome}: {path}: plan {plan}", flush=True)
        if runs and verbs.asked >= runs:
            break
    several = counts.pop("several runs", 0)
    total = sum(counts.values())
    share = 100 * counts["same"] / max(1, total)
    print(f"{name}: {verbs.asked} files with one run over the budget")
    print(f"{name}: {total} plans, {share:.1f} % the same in plan, fix and check: {dict(counts)}")
    print(f"{name}: files with several runs over the budget: {several}", flush=True)
    return counts["same"] == total


class Verbs:
    """The three verbs with the same cards. Rules are read once for all files, and the repository once for each verb.

    `asked`: so many files had one run over the budget."""

    def __init__(self, hardware: tuple[str, ...]) -> None:
        self.asked = 0
        self._hardware = hardware
        self._plan = Linter(self._request("memlint plan", fixes=False))
        self._check = Linter(self._request("memlint check"), like=self._plan)
        self._check.analyser.folds_causes = False

    def outcomes(self, path: str) -> Iterator[tuple[int, str]]:
        """For each number of a plan what differs between the verbs, or `same`."""
        over = [(target, index) for target in plan_targets(self._plan, path) for index in _over(target.analysis)]
        if len(over) > 1:
            yield 0, "several runs"
        if len(over) != 1:
            return
        self.asked += 1
        target, index = over[0]
        planned = plans_of(target, index, PlanRequest(), target.hooks(())).options
        shown = _of_check(self._check, path)
        for number in NUMBERS:
            tried = planned[number - 1].tried if number <= len(planned) else None
            found = (
                _patches(tried.before, tried.contents) if tried else {},
                self._of_fix(path, number),
                shown.get(number, {}),
            )
            if any(found):
                yield number, _compared(*found)

    def _of_fix(self, path: str, number: int) -> dict[str, bytes]:
        """What `fix --plan N --diff` prints."""
        request = self._request("memlint fix", path, "--plan", str(number))
        workspace = self._plan.analyser.workspaces.of(path)
        make = linter_maker(request, workspace, like=self._plan)
        settled = fix_files((path,), FixRequest(plan=number), make)
        return _patches(settled.before, settled.contents)

    def _request(self, name: str, *words: str, fixes: bool = True) -> LintRequest:
        given = fix_verb._parser(name).parse_args([*(words or (".",)), *self._hardware])
        options.fill_defaults(given)
        return options.lint_request(given, fixes=fixes)


def _over(analysis: Analysis) -> Iterator[int]:
    for index, (run, estimate) in enumerate(zip(analysis.runs, analysis.estimates)):
        known = estimate.budget_bytes and estimate.allocated_bytes is not None
        if known and run.purpose == "train" and estimate.verdict not in ("fits", "unknown"):
            yield index


def _compared(planned: dict[str, bytes], fixed: dict[str, bytes], shown: dict[str, bytes]) -> str:
    if planned == fixed == shown:
        return "same"
    names = {"plan": planned, "fix": fixed, "check": shown}
    missing = [name for name, patches in names.items() if not patches]
    if missing:
        return f"none in {' and '.join(missing)}"
    return "plan and fix differ" if planned != fixed else "check differs"


def _patches(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> dict[str, bytes]:
    """The patch of each file that changes."""
    return {path: patch(path, before[path], new) for path, new in after.items() if before[path] != new}


def _of_check(linter: Linter, path: str) -> dict[int, dict[str, bytes]]:
    """The patches of the plans that `check` shows of its finding about memory, by number. Changes that do not make the
    run fit are shown as well, and are no plans."""
    analysed = linter.analyse(path)
    documents = _documents(analysed)
    plans = [fix for fix in _main_fixes(analysed) if fix.patches and fix.verdict_after == "fits"]
    return {number: _from_patches(fix.patches, documents) for number, fix in enumerate(plans, 1)}


def _main_fixes(analysed: FileAnalysis) -> tuple[Fix, ...]:
    """The fixes of the first finding that the plans of a run solve."""
    shown = {identity(finding): finding for finding in analysed.findings}
    for analysis in analysed.analyses:
        for index in _over(analysis):
            main = main_finding(analysis, index)
            if main is not None and identity(main.finding) in shown:
                return shown[identity(main.finding)].fixes
    return ()


def _documents(analysed: FileAnalysis) -> dict[str, Document]:
    parts = [part for one in analysed.analyses if one.parsed for part in (one.document, *one.parsed.documents)]
    return {document.path: document for document in reversed(parts)}


def _from_patches(patches: tuple[Patch, ...], documents: Mapping[str, Document]) -> dict[str, bytes]:
    found = {}
    for path in dict.fromkeys(one.path for one in patches):
        document = documents[path]
        text = apply(document.text, tuple(one for one in patches if one.path == path))
        found[path] = patch(path, encode(document, document.text), encode(document, text))
    return found


if __name__ == "__main__":
    sys.exit(main())
