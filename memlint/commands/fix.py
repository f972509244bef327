"""`memlint fix`: applies the fixes of findings, or prints them as a patch."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from memlint.commands import options
from memlint.commands.check import exit_code
from memlint.commands.output import to_stdout
from memlint.errors import UsageError
from memlint.findings import Finding, Fix
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.laws import identity
from memlint.fixes.write import Write, WriteRefused, write_all
from memlint.lint.fix_files import FixedFiles, FixRequest, fix_files, linter_maker, new_errors, parser_disagreements
from memlint.report.card_figures import HOW_TO_READ

BUG_NOTE = "This is a bug in memlint, not in your config: nothing was written. Please report it."


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    if "-" in given.paths:
        raise UsageError("fix writes files: standard input is none")
    if given.interactive and not sys.stdin.isatty():
        raise UsageError("--interactive wants a terminal")
    paths = [item.path for item in options.config_files(given)]
    make = linter_maker(options.lint_request(given))
    wanted = FixRequest(given.unsafe, options.words(given.rule), given.plan)
    fixed = fix_files(paths, wanted, make, _confirmation(given))
    if fixed.broken:
        return _report_bug(fixed)
    _report_outcome(fixed)
    errors = tuple(new_errors(paths, fixed, make)) if fixed.contents else ()
    if errors:
        raise UsageError("; ".join(errors) + ": nothing was written; fix the files that share it one by one")
    disputed = tuple(parser_disagreements(fixed.before, fixed.contents))
    if disputed:
        sys.stderr.write("".join(f"{line}\n" for line in disputed) + f"memlint: {BUG_NOTE}\n")
        return 2
    files = _print_patch(fixed.before, fixed.contents) if given.diff else _write_files(fixed, paths)
    linter = make(fixed.contents, False)
    remaining = exit_code(
        tuple(linter.report_file(path) for path in paths), given.fail_on or "", linter, given.exit_zero
    )
    number = len(fixed.applied)
    sys.stderr.write(f"memlint: {number} fixed in {files} file{'s' * (files != 1)}\n")
    return max(remaining, int(given.diff and files > 0 and not given.exit_zero))


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
    parser.add_argument("--interactive", action="store_true", help="ask before each fix")
    return parser


def _confirmation(given: options.Options) -> Callable[[Finding, Fix], bool]:
    answers: dict[tuple[str, str, str], bool] = {}

    def is_confirmed(finding: Finding, fix: Fix) -> bool:
        key = identity(finding)
        if given.interactive and key not in answers:
            to_stdout(f"{_place(finding)}: {finding.rule} {finding.message}\n  {fix.title}? [y/N] ")
            answers[key] = sys.stdin.readline().strip().lower() in ("y", "yes")
        return answers.get(key, True)

    return is_confirmed


def _print_patch(before: Mapping[str, bytes], changed: Mapping[str, bytes]) -> int:
    texts = [patch(path.replace(os.sep, "/"), before[path], new) for path, new in changed.items()]
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(texts))
    sys.stdout.buffer.flush()
    return sum(map(bool, texts))


def _write_files(fixed: FixedFiles, paths: list[str]) -> int:
    """Writes all files or none and returns their number. Raises UsageError."""
    writes = [Write(path, fixed.before[path], fixed.contents[path]) for path in fixed.changed]
    roots = {os.getcwd(), *(os.path.dirname(os.path.abspath(path)) for path in paths)}
    try:
        write_all(writes, roots)
    except WriteRefused as error:
        raise UsageError(str(error)) from None
    return len(writes)


def _report_outcome(fixed: FixedFiles) -> None:
    for finding, fix in fixed.applied:
        sys.stderr.write(f"{_place(finding)}: {finding.rule} fixed: {fix.title}\n")
    for finding, reason in fixed.passed_over:
        sys.stderr.write(f"{_place(finding)}: {finding.rule} not fixed: {reason}\n")


def _report_bug(fixed: FixedFiles) -> int:
    for finding, law in fixed.broken:
        sys.stderr.write(f"{_place(finding)}: {finding.rule}: the fix breaks the law `{law.law}`: {law.detail}\n")
    sys.stderr.write(f"memlint: {BUG_NOTE}\n")
    return 2


def _place(finding: Finding) -> str:
    return f"{finding.location.path}:{finding.location.line}"
