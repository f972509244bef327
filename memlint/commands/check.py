"""`memlint check`: lints files and says what it found in every format that was asked for."""

from __future__ import annotations

import os

from memlint import __version__
from memlint.commands import options
from memlint.commands.output import to_stdout, write
from memlint.commands.pool import reports
from memlint.commands.run_files import Linter, files, job
from memlint.findings import SEVERITIES
from memlint.report.model import FileReport, Report, RuleFacts


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    pairs = options.formats(given)
    if given.show_settings:
        from memlint.commands.show_settings import show_settings

        return show_settings(given.show_settings, given)
    found = files(given)
    if given.list_files:
        to_stdout("".join(f"{item.path}\n" for item in found))
        return 0
    what = job(given)
    linted = reports(what, found, given.jobs)
    report = Report(tuple(linted), rule_facts(Linter(what)) if _wants_rules(pairs) else (), __version__)
    write(report, pairs, given.colour, {os.path.realpath(item.path) for item in found})
    return exit_code(report.files, given.fail_on or "warning", given.exit_zero)


def _parser(program: str) -> options.Parser:
    parser = options.parser(program, "Lints training configs: what will run out of memory, why, and what to change.")
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_rules(parser)
    options.add_settings(parser)
    options.add_output(parser)
    options.add_exit(parser)
    parser.add_argument("--hook", action="store_true", help="named files are candidates, as pre-commit gives them")
    parser.add_argument("--statistics", action="store_true", help="findings by rule at the end")
    return parser


def _wants_rules(pairs: tuple[tuple[str, str | None], ...]) -> bool:
    return any(name == "sarif" for name, _ in pairs)


def rule_facts(linter: Linter) -> tuple[RuleFacts, ...]:
    """What reports say of every rule in force, whether it found something or not."""
    made = []
    for rule in linter.rules():
        texts = rule.texts()
        made.append(RuleFacts(rule.id, rule.name, texts.title, rule.severity, texts.why, "", rule.family))
    return tuple(made)


def exit_code(linted: tuple[FileReport, ...], fail_on: str, exit_zero: bool) -> int:
    """2 for what could not be read or broke, 1 for findings from `fail_on` on, else 0."""
    if any(not file.readable or _crashed(file) for file in linted):
        return 2
    if exit_zero:
        return 0
    least = SEVERITIES.index(fail_on)
    return int(any(SEVERITIES.index(item.severity) >= least for file in linted for item in file.findings))


def _crashed(file: FileReport) -> bool:
    return any(item.rule == "MEM000" for item in file.findings)
