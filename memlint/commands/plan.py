"""`memlint plan`: finds the largest micro batch and longest sequence that fit, and changes that make a run fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import memlint.report.card_figures as card_figures
from memlint._record import NamedTuple
from memlint.card_bytes import CardBytes
from memlint.commands import options
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.findings import Fix
from memlint.fixes.attach import MAX_PLANS, Estimator, PlanOptions
from memlint.fixes.attach import options as plans_for
from memlint.fixes.attempt import Reanalyse
from memlint.fixes.planner import SearchHooks, as_fix, largest
from memlint.fixes.proposed_change import QUALITIES
from memlint.lint.linter import Linter
from memlint.memory.values import Estimate
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.terminal import one_line
from memlint.ruleset.engine import Analysis
from memlint.run import SERVERS, UNKNOWN, Run

BATCH, LENGTH = "batch.micro_batch_size", "sequence.length"
LONGEST = 1 << 24


class PlanTarget(NamedTuple):
    """A config to plan for. `reanalyse` analyses it under changed contents of files."""

    path: str
    analysis: Analysis
    estimator: Estimator
    reanalyse: Reanalyse


def run(program: str, arguments: list[str]) -> int:
    """Exit codes: 0 if every run fits or has a plan that does, else 1."""
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    linter = Linter(options.lint_request(given, fixes=False))
    rows = []
    for item in options.config_files(given):
        estimator = linter.rules.engine_of(linter.settings.of(item.path)).estimator
        workspace = linter.analyser.workspaces.of(item.path)
        for analysis in linter.analyse(item.path).analyses:
            target = PlanTarget(item.path, analysis, estimator, linter.analyser.reanalysis(analysis, workspace))
            rows += [_row(target, number, given) for number in range(len(analysis.runs))]
    if not rows:
        raise UsageError("no training config to plan for among these files")
    text = json.dumps({"schema_version": 1, "runs": rows}, indent=2) if given.format == "json" else _text(rows)
    to_stdout(text + "\n")
    return int(any(row["verdict"] not in ("fits", "unknown") and not row["plans"] for row in rows))


def _parser(program: str) -> options.Parser:
    parser = options.parser(
        program, "The largest batch or longest sequence that fits a card, and plans that fit.", HOW_TO_READ
    )
    parser.add_argument("paths", nargs="+", metavar="FILE")
    options.add_hardware(parser)
    options.add_settings(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--max-batch", action="store_true", help="only the largest micro batch")
    which.add_argument("--max-seq", action="store_true", help="only the longest sequence")
    return parser


def _row(target: PlanTarget, number: int, given: options.Options) -> dict[str, Any]:
    run, estimate = target.analysis.runs[number], target.analysis.estimates[number]
    row: dict[str, Any] = {"path": target.path, "verdict": estimate.verdict, "device_bytes": estimate.device_bytes}
    row |= {"device_high_bytes": estimate.device_high_bytes, "budget_bytes": estimate.budget_bytes}
    row["peak"] = _bytes(estimate.on_card)
    row |= {"fits_on": list(estimate.fits_on), "plans": [], "unknown": [item.field for item in estimate.unknown]}
    row["reasons"] = {item.field: item.reason for item in estimate.unknown}
    if not estimate.budget_bytes or estimate.allocated_bytes is None:
        return row
    search = SearchHooks(target.estimator)
    if not given.max_seq and run.parallelism.engine not in SERVERS:  # these batch requests as the cache allows
        row["max_micro_batch"] = _largest(run, BATCH, 1, search)
    if not given.max_batch:
        row["max_sequence_length"] = _largest(run, LENGTH, 1, search)
    if not (given.max_batch or given.max_seq) and estimate.verdict != "fits":
        found = plans_for(target.analysis, number, target.estimator, target.reanalyse)
        row["plans"] = [_plan(fix) for fix in _fixes(found, estimate)]
        row["advice"] = [_advice_row(fix) for fix in found.advice]
    return row


def _largest(run: Run, field: str, start: int, search: SearchHooks) -> dict[str, int]:
    """The largest value of `field` that fits, and the power of two below it; 0 if not even `start` fits."""
    exact = largest(run, field, start, search, LONGEST)
    return {"exact": exact, "power_of_two": 1 << (exact.bit_length() - 1) if exact else 0}


def _fixes(found_plans: PlanOptions, before: Estimate) -> list[Fix]:
    """Plans that fit when written and read back: the least risk for the training result first, then the fastest."""
    found = (
        as_fix(plan, before, tried.edits) for plan, tried in found_plans.options if plan.estimate.verdict == "fits"
    )
    return sorted(found, key=lambda fix: (QUALITIES.index(fix.quality), fix.speed))[:MAX_PLANS]


def _plan(fix: Fix) -> dict[str, Any]:
    changes = {name: value for name, value in fix.changes.items() if value is not UNKNOWN}
    plain = {name: value if isinstance(value, (int, float, str)) else str(value) for name, value in changes.items()}
    summary = {"title": fix.title, "safe": fix.safe, "speed": fix.speed, "quality": fix.quality, "note": fix.note}
    return {**summary, "after": _bytes(fix.after), "verdict_after": fix.verdict_after, "changes": plain}


def _advice_row(fix: Fix) -> dict[str, Any]:
    """Advice that no edit can carry out: other hardware or another release with which the run fits."""
    return {"title": fix.title, "note": fix.note, "after": _bytes(fix.after)}


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
    for key, label in (("max_micro_batch", "largest micro batch"), ("max_sequence_length", "longest sequence")):
        if key in row:
            found = row[key]
            limit = " (the search ends there)" if found["exact"] >= LONGEST else ""
            yield f"  {label}: {found['exact'] or 'none fits'}{limit}" + (
                f" (power of two: {found['power_of_two']})" if found["exact"] else ""
            )
    for number, plan in enumerate(row["plans"], 1):
        yield f"  plan {number}: {plan['title']}; peak {_figure(plan['after'])}"
        yield f"    step time x {plan['speed']:.2f}, risk to quality: {plan['quality']}"
        if plan["note"]:
            yield f"    {plan['note']}"
    for advice in row.get("advice", ()):
        after = f"; peak {_figure(advice['after'])}" if advice["after"] else ""
        note = f"; {advice['note']}" if advice["note"] else ""
        yield f"  or {advice['title']}{after}{note}"
    if row["verdict"] != "fits" and "plans" in row and not row["plans"]:
        yield f"  smallest common cards that hold it as it is: {', '.join(row['fits_on']) or 'none'}"
