"""Plans for the runs of files: changes that make a run fit, the largest batch and length, the fewest cards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes
from memlint.errors import UsageError
from memlint.findings import Fix, reading_errors
from memlint.fixes import goals
from memlint.fixes.checklist import Tried, checklist
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.goals import BATCH, LENGTH, LONGEST, largest, size_field
from memlint.fixes.lowered_bound import lowered_bound
from memlint.fixes.moves.hardware import MOST_GPUS
from memlint.fixes.plan import Plan
from memlint.fixes.plan_options import Estimator, PlanOptions
from memlint.fixes.plan_options import options as plans_for
from memlint.fixes.plan_search import PlanSearch, SearchHooks
from memlint.fixes.written_plans import WrittenPlan, edit_writer, fix_of, written
from memlint.lint.kept_keys import refuse_misspelled
from memlint.lint.linter import Linter
from memlint.memory.values import Estimate
from memlint.ruleset.engine import Analysis, Reanalyse
from memlint.run import SERVERS, UNKNOWN, Run, get

_OF_A_SIZE = ("batch", "length")  # goals that make a value larger


class PlanRequest(NamedTuple):
    """What to plan for.

    `goal`: one of `fixes.goals.GOALS`, "" for a run that fits. `only`: "batch" or "length" to search only the largest
    such value, without plans. `keep`: keys that no plan may change. `most_cards`: no plan uses more cards.
    """

    goal: str = ""
    only: str = ""
    keep: tuple[str, ...] = ()
    most_cards: int = MOST_GPUS


class PlanTarget(NamedTuple):
    """A config to plan for. `reanalyse` analyses it again with changed contents of files."""

    path: str
    analysis: Analysis
    estimator: Estimator
    reanalyse: Reanalyse

    def hooks(self, kept: tuple[str, ...]) -> SearchHooks:
        """The functions that the search calls. `kept`: keys that it must not change."""
        return SearchHooks(self.estimator, goals.keeping(edit_writer(self.analysis), kept))


class RunPlans(NamedTuple):
    """The result for one run: `row` as JSON shows it, and the plans with their edits."""

    row: dict[str, Any]
    plans: tuple[WrittenPlan, ...] = ()

    def patches(self, number: int) -> Iterator[bytes]:
        """Plan `number` (from 1) as unified diffs, one per file."""
        tried = self.plans[number - 1].tried
        for path, new in tried.contents.items():
            yield patch(path.replace(os.sep, "/"), tried.before[path], new)


def plan_files(linter: Linter, paths: Iterable[str], wanted: PlanRequest) -> list[RunPlans]:
    """The plans of every run in the files. Raises UsageError where none of them has a run or a key to be kept is
    misspelled."""
    targets = _without_started([target for path in paths for target in plan_targets(linter, path)])
    refuse_misspelled(wanted.keep, (target.analysis for target in targets))
    rows = [_row(target, number, wanted) for target in targets for number in range(len(target.analysis.runs))]
    if not rows:
        findings = (one for target in targets for one in target.analysis.findings)
        reasons = reading_errors(findings)
        raise UsageError(next(reasons, "no training config to plan for among these files"))
    return rows


def _without_started(targets: list[PlanTarget]) -> list[PlanTarget]:
    """The targets without configs that a script among them starts as they stand: the script's run is the config's."""
    starts = (target.analysis.document.start for target in targets)
    configs = {start.values.config for start in starts if start is not None}
    return [target for target in targets if target.path not in configs]


def is_stuck(row: dict[str, Any]) -> bool:
    """Whether a run does not fit and no plan helps."""
    return row["verdict"] not in ("fits", "unknown") and not row["plans"]


def plan_targets(linter: Linter, path: str) -> Iterator[PlanTarget]:
    return (target_of(linter, path, analysis) for analysis in linter.analyse(path).analyses)


def target_of(linter: Linter, path: str, analysis: Analysis) -> PlanTarget:
    judged = linter.analyser.judged(analysis, linter.analyser.workspaces.of(path))
    return PlanTarget(path, judged.analysis, linter.rules.engine_for(path).estimator, judged.reanalyse)


def _row(target: PlanTarget, number: int, wanted: PlanRequest) -> RunPlans:
    run, estimate = target.analysis.runs[number], target.analysis.estimates[number]
    row: dict[str, Any] = {"path": target.path, "verdict": estimate.verdict, "device_bytes": estimate.device_bytes}
    row |= {"device_high_bytes": estimate.device_high_bytes, "budget_bytes": estimate.budget_bytes}
    row["peak"] = _bytes_row(estimate.on_card)
    row |= {"fits_on": list(estimate.fits_on), "plans": [], "unknown": [item.field for item in estimate.unknown]}
    row["reasons"] = {item.field: item.reason for item in estimate.unknown}
    if not estimate.budget_bytes or estimate.allocated_bytes is None:
        return RunPlans(row | _bound_rows(run, estimate, target.hooks(wanted.keep)))
    hooks = target.hooks(wanted.keep)
    bounded = run.parallelism.engine in SERVERS or run.batch.max_tokens  # servers batch requests as the cache allows
    if wanted.only != "length" and not bounded:
        row["max_micro_batch"] = _largest(run, BATCH, 1, hooks)
    if wanted.only != "batch":
        bound = run.batch.max_tokens if isinstance(run.batch.max_tokens, int) else 0
        row["max_sequence_length"] = _largest(run, LENGTH, 1, hooks, bound or LONGEST)
    if wanted.only:
        return RunPlans(row)
    if wanted.goal == "cards":
        row["cards"] = _cards(run, estimate, hooks, wanted.most_cards)
    found = plans_of(target, number, wanted, hooks)
    row["plans"] = [_plan_row(fix_of(target.analysis, number, option)) for option in found.options]
    if wanted.goal in _OF_A_SIZE:
        row["goal"] = {"name": wanted.goal, "reached": _reaches(found, run, wanted.goal)}
    row["advice"] = [_advice_row(fix) for fix in found.advice if _is_within(fix, wanted.most_cards)]
    if estimate.verdict != "fits" and run.purpose == "train" and run.parallelism.world_size is UNKNOWN:
        row["advice"].append(_advice_row(_SAY_GPUS))
    if estimate.verdict != "fits":
        search = PlanSearch(run, estimate, hooks._replace(banned=found.refused))
        row["checklist"] = [_tried_row(tried) for tried in checklist(search)]
    return RunPlans(row, found.options)


def _bound_rows(run: Run, estimate: Estimate, hooks: SearchHooks) -> dict[str, Any]:
    """What lowers a bound that is over the card, and what lowers activations that it does not count."""
    lowered = lowered_bound(run, estimate, hooks)
    if not lowered:
        return {}
    return {"bound": [one._asdict() for one in lowered], "spares_activations": list(run.planning.spares_activations)}


def plans_of(target: PlanTarget, number: int, wanted: PlanRequest, hooks: SearchHooks) -> PlanOptions:
    """The plans of run `number`, numbered as `check` shows and `fix --plan N` writes them.

    With a goal, only plans that reach it, best first.
    """
    run, estimate = target.analysis.runs[number], target.analysis.estimates[number]
    if wanted.goal in _OF_A_SIZE:
        plan = goals.largest_plan(run, estimate, hooks, size_field(run, wanted.goal))
        option = written(target.analysis, number, plan, target.reanalyse) if plan is not None else None
        if isinstance(option, WrittenPlan):
            return PlanOptions((option,))
    if estimate.verdict == "fits":
        return PlanOptions()
    found = plans_for(target.analysis, number, target.estimator, target.reanalyse, hooks)
    fitting = tuple(option for option in found.options if option.plan.estimate.verdict == "fits")
    if wanted.goal == "speed":
        fitting = tuple(sorted(fitting, key=lambda option: (option.plan.speed, option.plan.risk)))
    return found._replace(options=fitting)


def _reaches(found: PlanOptions, run: Run, goal: str) -> bool:
    """Whether the first plan makes larger what the goal is about."""
    field = size_field(run, goal)
    now, planned = get(run, field), [get(option.plan.run, field) for option in found.options[:1]]
    return any(isinstance(now, int) and isinstance(then, int) and then > now for then in planned)


_SAY_GPUS = Fix("say how many cards there are with --gpus N", note="then sharding and host memory are tried as well")


def _is_within(fix: Fix, most: int) -> bool:
    """Whether advice such as "use 8 x A100-80GB" names at most `most` cards."""
    words = fix.title.split()
    return not (words[0] == "use" and words[1].isdigit() and int(words[1]) > most)


def _largest(run: Run, field: str, start: int, search: SearchHooks, most: int = LONGEST) -> dict[str, int]:
    """The largest value of `field` that fits, and the power of two below it; 0 if not even `start` fits. `most`: the
    largest to look for: where tokens bound a forward, no sequence is longer than that."""
    exact = largest(run, field, start, search, most)
    return {"exact": exact, "power_of_two": 1 << (exact.bit_length() - 1) if exact else 0}


def _cards(run: Run, estimate: Estimate, hooks: SearchHooks, most: int) -> dict[str, Any]:
    found = goals.fewest_cards(run, estimate, hooks, most)
    changes = [step.title for step in found.plan.steps] if isinstance(found.plan, Plan) else []
    critic = run.method.value_model
    return {
        "as_it_is": found.as_it_is,
        "with_changes": found.cards,
        "changes": changes,
        "beside_engine": run.rollout.generator == "vllm",  # which has cards of its own
        "beside_critic": critic.gpus if critic is not None else 0,
    }


def _plan_row(fix: Fix) -> dict[str, Any]:
    changes = {name: value for name, value in fix.changes.items() if value is not UNKNOWN}
    plain = {name: value if isinstance(value, (int, float, str)) else str(value) for name, value in changes.items()}
    summary = {"title": fix.title, "safe": fix.safe, "speed": fix.speed, "quality": fix.quality, "note": fix.note}
    return {**summary, "after": _bytes_row(fix.after), "verdict_after": fix.verdict_after, "changes": plain}


def _advice_row(fix: Fix) -> dict[str, Any]:
    """Advice that no edit of a file carries out: hardware or a release with which the run fits."""
    keeps = bool(fix.changes) and fix.quality == "none"
    return {"title": fix.title, "note": fix.note, "after": _bytes_row(fix.after), "keeps_the_result": keeps}


def _tried_row(tried: Tried) -> dict[str, Any]:
    return {"title": tried.title, "after": _bytes_row(tried.after), "fits": tried.fits}


def _bytes_row(found: CardBytes | None) -> dict[str, int] | None:
    return found._asdict() if found else None
