"""`memlint run -- COMMAND`: checks the training that a command would start, and starts it unless it cannot fit."""

from __future__ import annotations

import os
import sys

from memlint import __version__
from memlint.commands import options
from memlint.errors import UsageError
from memlint.findings import SEVERITIES
from memlint.lint.preflight import Preflight, preflight
from memlint.report import table, text
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.model import FileReport, Report
from memlint.report.terminal import PLAIN

NOT_FOUND = 127  # exit codes as in shells
NOT_EXECUTABLE = 126
ABOUT = """\
Reads COMMAND and what it names (scripts, configs, job headers) without running anything, checks the training that it
would start against the card that the job asks for, and then becomes COMMAND. Exit code 1, and nothing is started,
where the run does not fit or will not start."""


def run(program: str, arguments: list[str]) -> int:
    own, words = _split(arguments)
    given = _parser(program).parse_args(own)
    options.fill_defaults(given)
    if options.handle_info_flags(given):
        return 0
    if not words:
        raise UsageError("run wants a command behind `--`: memlint run -- sbatch job.sh")
    found = preflight(words, options.lint_request(given, fixes=not given.no_fixes))
    refused = _print_reports(found, given.fail_on)
    if refused and not given.force:
        sys.stderr.write("memlint: not started (--force starts it all the same)\n")
        return 1
    if given.dry_run:
        return 0
    return _replace_process(words)


def _parser(program: str) -> options.Parser:
    parser = options.parser(program, ABOUT, HOW_TO_READ)
    parser.usage = f"{program} [OPTIONS] -- COMMAND [ARGUMENT ...]"
    options.add_hardware(parser)
    options.add_settings(parser)
    parser.add_argument(
        "--fail-on", choices=SEVERITIES, default="error", help="the least severity that refuses (default: error)"
    )
    parser.add_argument("--force", action="store_true", help="tell what is wrong, and start the command all the same")
    parser.add_argument("--dry-run", action="store_true", help="check, and start nothing")
    parser.add_argument("--no-fixes", action="store_true", help="look for no ways out")
    return parser


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """(memlint's own options, the command after `--`)."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _print_reports(found: Preflight, fail_on: str) -> bool:
    """Writes the reports to standard error (standard output is the command's). Returns whether the run is refused."""
    for note in found.notes:
        sys.stderr.write(f"memlint: {note}\n")
    runs = [run for report in found.reports for run in report.runs]
    if not runs:
        sys.stderr.write("memlint: no training that it can read in this command\n")
    bad = tuple(report for report in found.reports if _is_refused(report, fail_on))
    if bad:
        sys.stderr.write(text.render(Report(bad, (), __version__)))
    for run in runs:
        sys.stderr.write("\n".join(("", *table.run_lines(run, PLAIN), "")))
    sys.stderr.flush()
    return bool(bad)


def _is_refused(report: FileReport, fail_on: str) -> bool:
    least = SEVERITIES.index(fail_on)
    does_not_fit = any(run.estimate.verdict == "out_of_memory" for run in report.runs)
    return does_not_fit or any(SEVERITIES.index(item.severity) >= least for item in report.findings)


def _replace_process(words: list[str]) -> int:
    """Replaces this process by the command, so that exit code, signals and streams are the command's own."""
    sys.stdout.flush()
    try:
        os.execvp(words[0], words)
    except FileNotFoundError:
        sys.stderr.write(f"memlint: {words[0]}: command not found\n")
        return NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"memlint: {words[0]}: {error.strerror}\n")
        return NOT_EXECUTABLE
