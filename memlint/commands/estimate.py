"""`memlint estimate`: the memory table of each run."""

from __future__ import annotations

import sys

from memlint import __version__
from memlint.commands import CommandError, options
from memlint.commands.output import to_stdout
from memlint.commands.pool import linted
from memlint.commands.run_files import files, job
from memlint.report import json, table
from memlint.report.model import Report
from memlint.report.terminal import style_for

FORMATS = ("text", "json")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The memory of each run: phases by components, per GPU, against the card.")
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_settings(parser)
    options.add_output(parser)
    given = parser.parse_args(arguments)
    wanted = (given.format or ["text"])[-1]
    if wanted not in FORMATS:
        raise CommandError(f"unknown format {wanted!r} for estimate: text or json")
    found = linted(job(given, fixes=False)._replace(assumptions=True), files(given), given.jobs)
    report = Report(tuple(item.report for item in found), (), __version__)
    text = json.render_estimates(report) if wanted == "json" else _table(report, given)
    _emit(text, given.output)
    return 2 if any(not file.readable for file in report.files) else 0


def _table(report: Report, given: options.Options) -> str:
    return table.render(report, style_for(sys.stdout, colour=False if given.output else given.colour))


def _emit(text: str, output: list[str]) -> None:
    if not output or output[-1] == "-":
        to_stdout(text)
        return
    try:
        with open(output[-1], "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise CommandError(f"{output[-1]}: {error.strerror}") from None
