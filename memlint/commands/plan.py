"""`memlint plan`: changes that make a run fit; the largest batch, the longest sequence, the fewest cards."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import memlint.report.card_figures as card_figures
from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes
from memlint.commands import options
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.findings import Fix
from memlint.fixes import goals
from memlint.fixes.attach import Estimator, PlanOptions, WrittenPlan, edit_writer, fix_of, written
from memlint.fixes.attach import options as plans_for
from memlint.fixes.attempt import Reanalyse
from memlint.fixes.checklist import Tried, checklist
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.goals import BATCH, LENGTH, LONGEST
from memlint.fixes.moves.hardware import MOST_GPUS
from memlint.fixes.planner import Plan, PlanSearch, SearchHooks, largest
from memlint.lint.linter import Linter
from memlint.memory.values import Estimate
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.progress import Busy
from memlint.report.terminal import one_line
from memlint.ruleset.engine import Analysis
from memlint.run import SERVERS, UNKNOWN, Run

_FIELDS = {"batch": BATCH, "length": LENGTH}


class PlanTarget(NamedTuple):
    """A config to plan for. `reanalyse` analyses it under changed contents of files."""

    path: str
    analysis: Analysis
    estimator: Estimator
    reanalyse: Reanalyse

    def hooks(self, kept: tuple[str, ...]) -> SearchHooks:
        """What the search asks; `kept`: keys that it leaves alone."""
        return SearchHooks(self.estimator, goals.keeping(edit_writer(self.analysis), kept))


class Row(NamedTuple):
    """What is printed of a run, and the plans behind it."""

    row: dict[str, Any]
    plans: tuple[WrittenPlan, ...] = ()


def run(program: str, arguments: list[str]) -> int:
    """Exit codes: 0 if every run fits or has a plan that does, else 1."""
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    linter = Linter(options.lint_request(given, fixes=False))
    with Busy("planning"):
        rows = [_row(target, number, given) for target in _targets(linter, given) for number in _runs(target)]
    if not rows:
        raise UsageError("no training config to plan for among these files")
    if given.diff:
        return _print_patch(rows, given.diff)
    plain = [row.row for row in rows]
    text = json.dumps({"schema_version": 1, "runs": plain}, indent=2) if given.format == "json" else _text(plain)
    to_screen(text + "\n", given.format != "json")
    return int(any(row["verdict"] not in ("fits", "unknown") and not row["plans"] for row in plain))


def _targets(linter: Linter, given: options.Options) -> Iterator[PlanTarget]:
    for item in options.config_files(given):
        estimator = linter.rules.engine_for(item.path).estimator
        workspace = linter.analyser.workspaces.of(item.path)
        for analysis in linter.analyse(item.path).analyses:
            judged = linter.analyser.judged(analysis, workspace)
            yield PlanTarget(item.path, judged.analysis, estimator, judged.reanalyse)


def _runs(target: PlanTarget) -> range:
    return range(len(target.analysis.runs))


def _parser(program: str) -> options.Parser:
    about = "Plans that make a run fit, and the largest batch, length or fewest cards."
    parser = options.parser(program, about, HOW_TO_READ)
    parser.add_argument("paths", nargs="+", metavar="FILE")
    options.add_hardware(parser)
    options.add_settings(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--max-batch", action="store_true", help="only the largest micro batch")
    which.add_argument("--max-seq", action="store_true", help="only the longest sequence")
    which.add_argument("--goal", choices=goals.GOALS, default="", help="what to plan for beside a run that fits")
    parser.add_argument("--keep", action="append", default=[], metavar="KEY", help="a key that no plan may change")
    parser.add_argument(
        "--max-cards", type=options.positive, default=MOST_GPUS, metavar="N", help="no more cards than these"
    )
    parser.add_argument("--diff", type=options.positive, default=0, metavar="N", help="print plan N as a patch")
    return parser


def _row(target: PlanTarget, number: int, given: options.Options) -> Row:
    run, estimate = target.analysis.runs[number], target.analysis.estimates[number]
    row: dict[str, Any] = {"path": target.path, "verdict": estimate.verdict, "device_bytes": estimate.device_bytes}
    row |= {"device_high_bytes": estimate.device_high_bytes, "budget_bytes": estimate.budget_bytes}
    row["peak"] = _bytes(estimate.on_card)
    row |= {"fits_on": list(estimate.fits_on), "plans": [], "unknown": [item.field for item in estimate.unknown]}
    row["reasons"] = {item.field: item.reason for item in estimate.unknown}
    if not estimate.budget_bytes or estimate.allocated_bytes is None:
        return Row(row)
    hooks = target.hooks(options.words(given.keep))
    if not given.max_seq and run.parallelism.engine not in SERVERS:  # these batch requests as the cache allows
        row["max_micro_batch"] = _largest(run, BATCH, 1, hooks)
    if not given.max_batch:
        row["max_sequence_length"] = _largest(run, LENGTH, 1, hooks)
    if given.max_batch or given.max_seq:
        return Row(row)
    if given.goal == "cards":
        row["cards"] = _cards(run, estimate, hooks, given.max_cards)
    found = _plans(target, number, given, hooks)
    row["plans"] = [_plan(fix_of(target.analysis, number, option)) for option in found.options]
    row["advice"] = [_advice_row(fix) for fix in found.advice if _is_within(fix, given.max_cards)]
    if estimate.verdict != "fits":
        row["checklist"] = [_tried_row(tried) for tried in checklist(PlanSearch(run, estimate, hooks))]
    return Row(row, found.options)


def _plans(target: PlanTarget, number: int, given: options.Options, hooks: SearchHooks) -> PlanOptions:
    """Plans as `check` shows and `fix --plan N` writes them; with a goal, those that reach it, in its order."""
    run, estimate = target.analysis.runs[number], target.analysis.estimates[number]
    if given.goal in _FIELDS:
        plan = goals.largest_plan(run, estimate, hooks, _FIELDS[given.goal])
        option = written(target.analysis, number, plan, target.reanalyse) if plan is not None else None
        if isinstance(option, WrittenPlan):
            return PlanOptions((option,))
    if estimate.verdict == "fits":
        return PlanOptions()
    found = plans_for(target.analysis, number, target.estimator, target.reanalyse, hooks)
    fitting = tuple(option for option in found.options if option.plan.estimate.verdict == "fits")
    if given.goal == "speed":
        fitting = tuple(sorted(fitting, key=lambda option: (option.plan.speed, option.plan.risk)))
    return found._replace(options=fitting)


def _is_within(fix: Fix, most: int) -> bool:
    """Whether the advice names no more cards than are allowed."""
    words = fix.title.split()
    return not (words[0] == "use" and words[1].isdigit() and int(words[1]) > most)


def _largest(run: Run, field: str, start: int, search: SearchHooks) -> dict[str, int]:
    """The largest value of `field` that fits, and the power of two below it; 0 if not even `start` fits."""
    exact = largest(run, field, start, search, LONGEST)
    return {"exact": exact, "power_of_two": 1 << (exact.bit_length() - 1) if exact else 0}


def _cards(run: Run, estimate: Estimate, hooks: SearchHooks, most: int) -> dict[str, Any]:
    found = goals.fewest_cards(run, estimate, hooks, most)
    changes = [step.title for step in found.plan.steps] if isinstance(found.plan, Plan) else []
    return {"as_it_is": found.as_it_is, "with_changes": found.cards, "changes": changes}


def _print_patch(rows: list[Row], number: int) -> int:
    """The plan with this number of every run as one patch. Exit code 1 where a run has none."""
    missing = False
    for row in rows:
        if len(row.plans) < number:
            missing = missing or row.row["verdict"] != "fits"
            continue
        tried = row.plans[number - 1].tried
        sys.stdout.flush()
        sys.stdout.buffer.write(b"".join(_patches(tried.before, tried.contents)))
        sys.stdout.buffer.flush()
    if missing:
        sys.stderr.write(f"memlint: there is no plan {number}\n")
    return int(missing)


def _patches(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[bytes]:
    for path, new in after.items():
        yield patch(path.replace(os.sep, "/"), before[path], new)


def _plan(fix: Fix) -> dict[str, Any]:
    changes = {name: value for name, value in fix.changes.items() if value is not UNKNOWN}
    plain = {name: value if isinstance(value, (int, float, str)) else str(value) for name, value in changes.items()}
    summary = {"title": fix.title, "safe": fix.safe, "speed": fix.speed, "quality": fix.quality, "note": fix.note}
    return {**summary, "after": _bytes(fix.after), "verdict_after": fix.verdict_after, "changes": plain}


def _advice_row(fix: Fix) -> dict[str, Any]:
    """Advice that no edit can carry out: other hardware or another release with which the run fits."""
    return {"title": fix.title, "note": fix.note, "after": _bytes(fix.after)}


def _tried_row(tried: Tried) -> dict[str, Any]:
    return {"title": tried.title, "after": _bytes(tried.after), "fits": tried.fits}


def _bytes(found: CardBytes | None) -> dict[str, int] | None:
    return found._asdict() if found else None


def _figure(found: dict[str, int] | None) -> str:
    return card_figures.figure(CardBytes(**found)) if found else "?"


def _text(rows: list[dict[str, Any]]) -> str:
    return "\n\n".join("\n".join(_lines(row)) for row in rows)


def _lines(row: dict[str, Any]) -> Iterator[str]:
    yield row["path"]
    if row["peak"] is None:
        yield from (f"  not estimated: {field}: {one_line(reason)}" for field, reason in row["reasons"].items())
        return
    if not row["budget_bytes"]:
        yield f"  peak {_figure(row['peak'])}; no card is known: name one with --gpu"
        return
    yield f"  {card_figures.verdict_words(row['verdict'], CardBytes(**row['peak']))}: peak {_figure(row['peak'])}"
    yield from _largest_lines(row)
    yield from _card_lines(row)
    yield from _plan_lines(row)
    yield from _checklist_lines(row)
    if row["verdict"] != "fits" and "advice" in row and not row["plans"]:
        yield f"  smallest common cards that hold it as it is: {', '.join(row['fits_on']) or 'none'}"


def _largest_lines(row: dict[str, Any]) -> Iterator[str]:
    for key, label in (("max_micro_batch", "largest micro batch"), ("max_sequence_length", "longest sequence")):
        if key in row:
            found = row[key]
            limit = " (the search ends there)" if found["exact"] >= LONGEST else ""
            yield f"  {label}: {found['exact'] or 'none fits'}{limit}" + (
                f" (power of two: {found['power_of_two']})" if found["exact"] else ""
            )


def _card_lines(row: dict[str, Any]) -> Iterator[str]:
    if "cards" in row:
        found = row["cards"]
        yield f"  fewest of these cards as it is: {found['as_it_is'] or 'none is enough'}"
        changes = f" ({'; '.join(found['changes'])})" if found["changes"] else ""
        yield f"  fewest without a risk for the result: {found['with_changes'] or 'none is enough'}{changes}"


def _plan_lines(row: dict[str, Any]) -> Iterator[str]:
    for number, plan in enumerate(row["plans"], 1):
        yield f"  plan {number}: {plan['title']}; peak {_figure(plan['after'])}"
        yield f"    step time x {plan['speed']:.2f}, risk to quality: {plan['quality']}"
        if plan["note"]:
            yield f"    {plan['note']}"
    for advice in row.get("advice", ()):
        after = f"; peak {_figure(advice['after'])}" if advice["after"] else ""
        note = f"; {advice['note']}" if advice["note"] else ""
        yield f"  or {advice['title']}{after}{note}"


def _checklist_lines(row: dict[str, Any]) -> Iterator[str]:
    tried = row.get("checklist", ())
    if tried:
        yield "  one after the other, in the order that guides give:"
    for number, one in enumerate(tried, 1):
        end = ", fits" if one["fits"] else ""
        yield f"    {number}. {one['title']}: peak {_figure(one['after'])}{end}"
