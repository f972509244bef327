"""`memlint fix`: applies the fixes of findings, or prints them as a patch."""

from __future__ import annotations

import sys

from memlint.commands import options
from memlint.commands.check import exit_code
from memlint.commands.fixing import BUG_NOTE, FixBug, fix_files
from memlint.errors import UsageError
from memlint.report.card_figures import HOW_TO_READ


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    if given.interactive and not sys.stdin.isatty():
        raise UsageError("--interactive wants a terminal")
    try:
        fixed = fix_files(given)
    except FixBug as bug:
        sys.stderr.write(f"{bug}memlint: {BUG_NOTE}\n")
        return 2
    linter = fixed.linter()
    reports = tuple(linter.report_file(path) for path in fixed.paths)
    remaining = exit_code(reports, given.fail_on or "", linter, given.exit_zero)
    return max(remaining, int(given.diff and fixed.files > 0 and not given.exit_zero))


def _parser(program: str) -> options.Parser:
    parser = options.parser(program, "Applies safe fixes: those that leave the training result as it is.", HOW_TO_READ)
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_rules(parser)
    options.add_settings(parser)
    options.add_exit(parser)
    parser.add_argument("--hook", action="store_true", help="named files are candidates, as pre-commit gives them")
    parser.add_argument("--diff", action="store_true", help="print a patch for `git apply`, and write nothing")
    parser.add_argument("--unsafe", action="store_true", help="fixes that may change the training result, too")
    parser.add_argument("--rule", action="append", default=[], metavar="RULE", help="fix findings of this rule only")
    parser.add_argument("--plan", type=options.positive, default=0, metavar="N", help="the finding's N-th fix")
    parser.add_argument("--interactive", action="store_true", help="show each fix as a patch, and ask")
    return parser
