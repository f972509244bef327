"""`memlint plan`: changes that make a run fit; the largest batch, the longest sequence, the fewest cards."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Any

from memlint.commands import options
from memlint.commands.other_model import with_model_for_unknown_names
from memlint.commands.output import to_screen
from memlint.fixes import goals
from memlint.fixes.moves.hardware import MOST_GPUS
from memlint.lint.linter import Linter
from memlint.lint.plans import PlanRequest, RunPlans, is_stuck, plan_files
from memlint.report import plans as table
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.progress import Busy
from memlint.report.terminal import style_for


def run(program: str, arguments: list[str]) -> int:
    """Exit codes: 0 if every run fits or has a plan that does, else 1."""
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    request = options.lint_request(given, fixes=False)
    paths = [item.path for item in options.config_files(given)]
    request = with_model_for_unknown_names(given, request, paths)
    linter = Linter(request)
    only = "batch" if given.max_batch else "length" if given.max_seq else ""
    wanted = PlanRequest(given.goal, only, options.words(given.keep), given.max_cards)
    with Busy("planning"):
        rows = plan_files(linter, paths, wanted)
    if given.diff:
        return _print_patch(rows, given.diff)
    plain = [row.row for row in rows]
    how = _how_to_write(rows, given, program, arguments) if given.format != "json" else ""
    to_screen(f"{_rendered(plain, given)}\n{how}", given.format != "json")
    return int(any(map(is_stuck, plain)))


def _how_to_write(rows: list[RunPlans], given: options.Options, program: str, arguments: list[str]) -> str:
    """The command that writes the first plan; "" where there is none, or `fix` would number the plans otherwise."""
    asked = given.goal or given.keep or given.max_cards != MOST_GPUS
    if not any(row.plans for row in rows) or asked:
        return ""
    fix = f"{program.removesuffix(' plan')} fix --plan 1"
    return f"\nto write plan 1: {fix} {shlex.join(_without_format(arguments))}\n"


def _without_format(arguments: list[str]) -> list[str]:
    """The arguments without `--format text`, which `fix` does not take."""
    kept = [one for one in arguments if not one.startswith("--format=")]
    at = kept.index("--format") if "--format" in kept else len(kept)
    return kept[:at] + kept[at + 2 :]


def _rendered(rows: list[dict[str, Any]], given: options.Options) -> str:
    if given.format == "json":
        return json.dumps({"schema_version": 1, "runs": rows}, indent=2)
    return table.render(rows, style_for(sys.stdout, colour=given.colour))


def _parser(program: str) -> options.Parser:
    about = "Plans that make a run fit, and the largest batch, length or fewest cards."
    parser = options.parser(program, about, HOW_TO_READ)
    parser.add_argument("paths", nargs="+", metavar="FILE")
    options.add_hardware(parser)
    options.add_settings(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options.add_colour(parser)
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


def _print_patch(rows: list[RunPlans], number: int) -> int:
    """The plan with this number of every run as one patch. Exit code 1 where a run has none."""
    missing = False
    for row in rows:
        if len(row.plans) < number:
            missing = missing or row.row["verdict"] != "fits"
            continue
        sys.stdout.flush()
        sys.stdout.buffer.write(b"".join(row.patches(number)))
        sys.stdout.buffer.flush()
    if missing:
        sys.stderr.write(f"memlint: there is no plan {number}\n")
    return int(missing)
