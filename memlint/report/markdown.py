"""Markdown for job summaries and comments: a table of runs, then findings by file."""

from __future__ import annotations

from collections.abc import Iterator

import memlint.report.card_figures as card_figures
from memlint.findings import Finding
from memlint.report.model import FileReport, Report, RunReport, verdict_of
from memlint.report.terminal import Style, one_line
from memlint.report.text import describe_fix, not_estimated, plural, summary
from memlint.report.totals import totals

QUIET = ("fits", "barely fits", "unknown")  # verdicts that are not set in bold
# What could start markup, a mention or raw HTML inside a line of text.
SPECIAL = str.maketrans({char: f"\\{char}" for char in "\\`*_{}[]<>()#!|~@"})


def render(report: Report) -> str:
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "### memlint"
    yield ""
    count = totals(report)
    yield escape(summary(count, Style()))
    runs = [run for file in report.files for run in file.runs if run.estimate.device_bytes is not None]
    if runs:
        yield ""
        yield "| config | model | GPU | peak on the card | verdict |"
        yield "|---|---|---|---:|---|"
        yield from map(row, runs)
        yield ""
        yield f"<sub>{escape(card_figures.HOW_TO_READ)}</sub>"
    if count.not_estimated:
        yield ""
        yield from (f"- {prose(line)}" for line in not_estimated(count, Style()))
    for file in report.files:
        if file.findings:
            yield from _file(file)


def row(run: RunReport) -> str:
    word = verdict_of(run)
    card = run.hardware.cards or "not named"
    cells = (run.path, run.model.id or "unknown", card, card_figures.peak(run.estimate))
    texts = " | ".join(escape(cell) for cell in cells)
    return f"| {texts} | {escape(word) if word in QUIET else f'**{escape(word)}**'} |"


def _file(file: FileReport) -> Iterator[str]:
    yield ""
    yield f"<details><summary>{html(file.path)}: {plural(len(file.findings), 'finding')}</summary>"
    yield ""
    for item in file.findings:
        yield from finding_lines(item)
    yield ""
    yield "</details>"


def finding_lines(finding: Finding) -> Iterator[str]:
    place = finding.location
    yield f"- **{finding.severity}** {finding.rule} line {place.line}: {prose(finding.message)}"
    yield from (f"  - fix: {prose(describe_fix(fix))}" for fix in finding.fixes[:3])


def prose(text: str) -> str:
    """`text` on one line, what stands between backticks as code, and nothing else that Markdown or HTML would read.

    What could be a tag is no code: not every reader of Markdown leaves the inside of code alone.
    """
    parts = one_line(text).split("`")
    if len(parts) % 2 == 0 or not all(parts[1::2]):
        return escape(text)
    return "".join(_code(part) if index % 2 else part.translate(SPECIAL) for index, part in enumerate(parts))


def _code(text: str) -> str:
    quoted = f"`{text}`"
    return quoted.translate(SPECIAL) if "<" in text else quoted


def escape(text: str) -> str:
    """`text` on one line, with nothing in it that Markdown or HTML would read."""
    return one_line(text).translate(SPECIAL)


def html(text: str) -> str:
    return one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
