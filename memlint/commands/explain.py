"""`memlint explain`: a rule's page, or the numbers behind the findings of a file or of one of its lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from memlint.checks.rule import Rule
from memlint.checks.shipped import shipped
from memlint.commands import CommandError, options
from memlint.commands.output import to_stdout
from memlint.commands.rule_facts import rule_facts
from memlint.commands.run_files import Linter, files, job
from memlint.findings import Finding
from memlint.report.model import RuleFacts
from memlint.report.table import run_lines
from memlint.report.terminal import one_line, style_for
from memlint.report.units import gib
from memlint.run import UNKNOWN, Origin, Run

# Terms that the table shows phase by phase: one figure of them would be another moment's.
IN_TABLE = ("activations_bytes", "logits_bytes", "weights_bytes")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "A rule's page; or, for PATH or PATH:LINE, the numbers behind what is said of it.")
    parser.add_argument("what", metavar="RULE|PATH[:LINE]", help="a rule's id or name, a file, or a line of it")
    parser.add_argument("--no-color", dest="colour", action="store_false", default=None, help="plain text")
    options.add_hardware(parser)
    options.add_settings(parser)
    given = parser.parse_args(arguments)
    given.force_exclude, given.exclude = False, []
    path, line = _place(given.what)
    given.paths = []
    rule = next((item for item in rule_facts(Linter(job(given))) if given.what in (item.id, item.name)), None)
    if rule is not None:
        written = next((item for item in shipped() if item.id == rule.id), None)
        lines = _page(rule, written)
    else:
        given.paths = [path]
        lines = _derivation(given, line)
    to_stdout("\n".join(lines) + "\n")
    return 0


def _place(what: str) -> tuple[str, int]:
    path, _, number = what.rpartition(":")
    return (path, int(number)) if path and number.isdecimal() else (what, 0)


def _page(rule: RuleFacts, written: Rule | None) -> Iterator[str]:
    yield f"{rule.id} {rule.name} ({rule.severity})"
    yield rule.title
    if rule.why:
        yield f"\nWhy\n  {rule.why}"
    if written is None:
        return
    if written.texts().when:
        yield f"\nWhen\n  {written.texts().when}"
    yield f"\nFormats\n  {', '.join(written.formats) or 'all'}"
    titles = [str(item) for item in ("the planner looks for what fits",) if written.plan]
    if titles:
        yield f"\nFix\n  {titles[0]}"
    yield "\nSources"
    yield from (f"  {source}" for source in written.texts().sources)
    yield f"\nRule file (with its examples)\n  {written.path}"


def _derivation(given: options.Options, line: int) -> Iterator[str]:
    found = files(given)
    if not found:
        raise CommandError(f"{given.paths[0]}: no config to explain")
    linter = Linter(job(given))
    for item in found:
        outcome = linter.outcome(item.path)
        report = linter.judged(item.path, outcome).report
        at = [
            one for one in report.findings if not line or (one.location.line == line and one.location.path == item.path)
        ]
        if line and not at:
            raise CommandError(f"{item.path}:{line}: no finding there")
        for finding in at:
            yield from _finding(finding)
        for told in report.runs:
            yield from run_lines(told, style_for(sys.stdout, colour=given.colour))
        for analysis in outcome.analyses:
            for one, estimate in zip(analysis.runs, analysis.estimates):
                yield "\nTerms"
                terms = {name: value for name, value in estimate.details.items() if value and name not in IN_TABLE}
                yield from (f"  {name:32} {_number(name, value)}" for name, value in terms.items())
                yield "\nWhere the values came from"
                yield from _origins(one)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.location.path}:{finding.location.line}: {finding.rule} {one_line(finding.message)}"
    yield from (f"  {name} = {_number(name, value)}" for name, value in finding.data.items())
    yield from (f"  fix {number}: {fix.title}" for number, fix in enumerate(finding.fixes, 1))
    yield ""


def _number(name: str, value: object) -> str:
    is_bytes = isinstance(value, int) and name.endswith("bytes") and not isinstance(value, bool)
    return f"{value} ({gib(int(str(value)))})" if is_bytes else one_line(str(value))


def _origins(run: Run) -> Iterator[str]:
    for name, origin in sorted(run.origins.items()):
        value = _at(run, name)
        shown = "unknown" if value is UNKNOWN else one_line(str(value))[:60]
        yield f"  {name} = {shown}  <- {_told(origin)}"


def _at(run: Run, name: str) -> object:
    value: object = run
    for part in name.split("."):
        value = getattr(value, part, "?")
    return value


def _told(origin: Origin) -> str:
    if origin.path:
        return f"{origin.path}:{origin.line}"
    return f"{origin.kind}: {origin.detail}" if origin.detail else origin.kind
