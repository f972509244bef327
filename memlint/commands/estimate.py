"""`memlint estimate`: prints the memory table of each run."""

from __future__ import annotations

import sys

from memlint import __version__
from memlint.commands import options
from memlint.commands.output import protected_paths, to_file, to_stdout
from memlint.lint.pool import lint_files
from memlint.report import json, table
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.model import Report
from memlint.report.terminal import style_for

FORMATS = ("text", "json")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(
        program, "The memory of each run: phases by components, per GPU, against the card.", HOW_TO_READ
    )
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_settings(parser)
    options.add_output(parser, FORMATS)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    pairs = options.formats(given, FORMATS, "estimate")
    found = options.config_files(given)
    request = options.lint_request(given, fixes=False)._replace(assumptions=True)
    files = tuple(file.report for file in lint_files(request, found, given.jobs))
    report = Report(files, (), __version__)
    for name, path in pairs:
        text = json.render_estimates(report) if name == "json" else _table(report, given, path)
        if path is None:
            to_stdout(text)
        else:
            to_file((text,), path, protected_paths(report.files, found))
    if any(not file.readable for file in report.files):
        return 2
    return 0 if any(file.runs for file in report.files) else 2  # a wrong path must not look like a run that fits


def _table(report: Report, given: options.Options, path: str | None) -> str:
    return table.render(report, style_for(sys.stdout, colour=given.colour if path is None else False))
