"""`memlint check`: lints files and says what it found in every format that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

import memlint.lint.rule_facts as rule_facts
from memlint import __version__
from memlint.commands import options
from memlint.commands.info_flags import answered
from memlint.commands.output import write
from memlint.findings import SEVERITIES
from memlint.lint import gather
from memlint.lint.linter import Linted, Linter, files, job
from memlint.lint.pool import linted
from memlint.lint.what_if import detail_for
from memlint.report.model import FileReport, Report

NEEDS_RULES = ("sarif", "html")


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    if answered(given):
        return 0
    pairs = options.formats(given)
    found = files(given)
    if given.hook:
        from memlint.repository.dependents import with_dependents

        found = with_dependents(found)
    wants_page = any(name == "html" for name, _ in pairs)
    what = job(given, fixes=not given.no_fixes)._replace(what_if=detail_for(len(found)) if wants_page else "")
    linter = Linter(what)
    strict = False

    def told() -> Iterator[Linted]:
        nonlocal strict
        for item in linted(what, found, given.jobs):
            strict = strict or bool(item.waivers and linter.settings(item.report.path).require_reason)
            yield item

    reports = gather.with_waivers(gather.gathered(told(), len(found)), strict)
    baseline = given.baseline or linter.settings(os.path.join(os.getcwd(), "config.yaml")).baseline
    if given.write_baseline:
        return _write_baseline(reports, baseline)
    accepted = gather.without_baseline(reports, baseline) if baseline else gather.Accepted(reports)
    report = Report(
        accepted.reports,
        rule_facts.rule_facts(linter) if any(name in NEEDS_RULES for name, _ in pairs) else (),
        __version__,
        notes=accepted.notes,
        statistics=given.statistics,
        overview=any(os.path.isdir(path) for path in given.paths or ["."]),
    )
    write(report, pairs, given.colour, found)
    return exit_code(report.files, given.fail_on or "", linter, given.exit_zero)


def _parser(program: str) -> options.Parser:
    parser = options.parser(program, "Lints training configs: what will run out of memory, why, and what to change.")
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_rules(parser)
    options.add_settings(parser)
    options.add_output(parser)
    options.add_exit(parser)
    parser.add_argument("--hook", action="store_true", help="named files are candidates, as pre-commit gives them")
    parser.add_argument("--no-fixes", action="store_true", help="look for no ways out: five times faster on many files")
    parser.add_argument("--statistics", action="store_true", help="findings by rule at the end")
    parser.add_argument("--baseline", metavar="FILE", help="findings to accept, as --write-baseline wrote them")
    parser.add_argument("--write-baseline", action="store_true", help="accept every finding there is now, and stop")
    return parser


def _write_baseline(reports: Sequence[FileReport], path: str) -> int:
    target = path or gather.DEFAULT_BASELINE
    number = gather.write_baseline(reports, target)
    hint = "" if path else f"; say `baseline: {target}` in memlint.yaml so that it counts"
    sys.stderr.write(f"memlint: {number} findings accepted in {target}{hint}\n")
    return 0


def exit_code(reports: Iterable[FileReport], fail_on: str, linter: Linter, exit_zero: bool) -> int:
    """2 for what could not be read or broke, 1 for findings from `fail_on` (else the settings' word) on, else 0."""
    fails = False
    for file in reports:
        if not file.readable or _crashed(file):
            return 2
        fails = fails or bool(not exit_zero and file.findings and _fails(file, fail_on, linter))
    return int(fails)


def _fails(file: FileReport, fail_on: str, linter: Linter) -> bool:
    least = SEVERITIES.index(fail_on or linter.settings(file.path).fail_on)
    return any(SEVERITIES.index(item.severity) >= least for item in file.findings)


def _crashed(file: FileReport) -> bool:
    return any(item.rule == "MEM000" for item in file.findings)
