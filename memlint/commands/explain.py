"""`memlint explain`: prints a rule's page, or the numbers behind the findings of a file or of one of its lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import memlint.report.json as as_json
from memlint._record import NamedTuple
from memlint.commands import options
from memlint.commands.other_model import with_model_replaced
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.findings import Finding
from memlint.formats.schema.suggest import nearest
from memlint.lint.linter import Linter
from memlint.lint.rule_facts import rule_facts
from memlint.memory.arithmetic import arithmetic
from memlint.report.arithmetic import as_values
from memlint.report.arithmetic import lines as math_lines
from memlint.report.model import RuleFacts, RunReport
from memlint.report.table import run_lines, title
from memlint.report.terminal import one_line, style_for
from memlint.report.text import describe_fix
from memlint.report.units import gib
from memlint.ruleset import page as rule_page
from memlint.run import Run

# Rule variables that are in bytes although their names do not end in "bytes".
BYTES = ("weights", "gradients", "states", "activations", "scores", "logits", "temporaries", "gathered", "others")
# Terms that are left out because the table shows them for each phase, and a single figure could be of another phase.
IN_TABLE = ("activations_bytes", "logits_bytes", "weights_bytes")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "A rule's page; or, for PATH or PATH:LINE, the numbers behind what is said of it.")
    parser.add_argument("what", metavar="RULE|PATH[:LINE]", help="a rule's id or name, a file, or a line of it")
    parser.add_argument("--math", action="store_true", help="each component of the peak as a formula with its numbers")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    options.add_colour(parser)
    options.add_hardware(parser)
    options.add_settings(parser)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    linter = Linter(options.lint_request(given))
    folders = linter.settings.of(os.path.join(os.getcwd(), "config.yaml")).rules_dirs
    rules = rule_facts(linter.rules, folders)
    if given.math:
        _print_arithmetic(explain_files(given), given)
        return 0
    rule = next((item for item in rules if given.what.lower() in (item.id.lower(), item.name)), None)
    if rule is None:
        _refuse_unknown(given.what, rules)
        files = explain_files(given)
        text = _json(files) if given.format == "json" else "\n".join(_derivations(files, given)) + "\n"
        to_screen(text, given.format != "json")
        return 0
    page = rule_page.facts(rule, next((item for item in linter.rules.rules(folders) if item.id == rule.id), None))
    text = as_json.dump(page) if given.format == "json" else "\n".join(rule_page.text(page)) + "\n"
    to_screen(text, given.format != "json")
    return 0


def _print_arithmetic(files: tuple[ExplainedFile, ...], given: options.Options) -> None:
    """Prints the arithmetic of every run. Raises UsageError if no run is estimated."""
    pairs = [(report, arithmetic(run, report.estimate)) for file in files for run, report in file.runs]
    estimated = [(report, found) for report, found in pairs if found is not None]
    if not estimated:
        unknown = [one.reason for report, _ in pairs for one in report.estimate.unknown]
        raise UsageError(f"{given.what}: no estimate to explain" + (f": {unknown[0]}" if unknown else ""))
    if given.format == "json":
        to_screen(
            as_json.dump({"runs": [{"path": report.path, **as_values(found)} for report, found in estimated]}), False
        )
        return
    style = style_for(sys.stdout, colour=given.colour)
    blocks = [
        "\n".join((title(report, style), *math_lines(found, report.estimate, style))) for report, found in estimated
    ]
    to_screen("\n\n".join(blocks) + "\n")


def _refuse_unknown(what: str, rules: tuple[RuleFacts, ...]) -> None:
    """Raises UsageError if `what` is neither a rule nor a path, and suggests the nearest rule."""
    if os.path.exists(what) or os.path.exists(_place(what)[0]):
        return
    near = nearest(what, [word for item in rules for word in (item.id, item.name)])
    hint = f"did you mean {near}?" if near else "`memlint rules --all` lists the rules"
    raise UsageError(f"{what}: no rule is called so, and there is no such file or folder; {hint}")


class ExplainedFile(NamedTuple):
    """One file: its findings (at the requested line, if any), and its runs with their reports."""

    findings: tuple[Finding, ...]
    runs: tuple[tuple[Run, RunReport], ...]


def _place(what: str) -> tuple[str, int]:
    path, _, number = what.rpartition(":")
    return (path, int(number)) if path and number.isdecimal() else (what, 0)


def explain_files(given: options.Options) -> tuple[ExplainedFile, ...]:
    """The findings and runs of the requested files or line. Raises UsageError if there are none."""
    path, line = _place(given.what)
    given.paths = [path]
    found = options.config_files(given)
    if not found:
        raise UsageError(f"{path}: no config to explain")
    request = options.lint_request(given)._replace(assumptions=True)
    linter = Linter(with_model_replaced(given, request, [item.path for item in found]))
    linter.analyser.folds_causes = False  # so that each finding keeps its own numbers
    files = tuple(_explain_file(linter, item.path, line) for item in found)
    if not any(file.findings or file.runs for file in files):
        raise UsageError(f"{path}: nothing to explain: no run and no finding")
    return files


def _explain_file(linter: Linter, path: str, line: int) -> ExplainedFile:
    analysed = linter.analyse(path)
    report = linter.report(analysed).report
    here = tuple(
        finding
        for finding in report.findings
        if not line or (finding.location.line == line and finding.location.path == path)
    )
    if line and not here:
        raise UsageError(f"{path}:{line}: no finding there")
    runs = (run for analysis in analysed.analyses for run in analysis.runs)
    return ExplainedFile(here, tuple(zip(runs, report.runs)))


def _json(files: tuple[ExplainedFile, ...]) -> str:
    return as_json.dump(
        {
            "findings": [as_json.finding(finding) for file in files for finding in file.findings],
            "runs": [as_json.run(report) for file in files for _, report in file.runs],
        }
    )


def _derivations(files: tuple[ExplainedFile, ...], given: options.Options) -> Iterator[str]:
    for file in files:
        for finding in file.findings:
            yield from _finding(finding)
        for run, report in file.runs:
            yield from run_lines(report, style_for(sys.stdout, colour=given.colour))
            terms = {name: value for name, value in report.estimate.details.items() if value and name not in IN_TABLE}
            if terms:
                yield "\nTerms"
            yield from (f"  {name:32} {_number(name, value)}" for name, value in terms.items())
            yield "\nWhere the values came from"
            yield from _origins(run, report)


def _finding(finding: Finding) -> Iterator[str]:
    yield f"{finding.location.path}:{finding.location.line}: {finding.rule} {one_line(finding.message)}"
    numbers = {name: value for name, value in finding.data.items() if not isinstance(value, (bool, str))}
    yield from (f"  {name} = {_number(name, value)}" for name, value in numbers.items())
    yield from (f"  fix {number}: {describe_fix(fix)}" for number, fix in enumerate(finding.fixes, 1))
    yield ""


def _number(name: str, value: object) -> str:
    counts_bytes = name.endswith(("bytes", "peak")) or name in BYTES
    is_bytes = counts_bytes and isinstance(value, int) and not isinstance(value, bool)
    return f"{value} ({gib(int(str(value)))} GiB)" if is_bytes else one_line(str(value))


def _format_value(value: object) -> str:
    """A value as a config writes it: true, none, a list; a record as those of its fields that are set."""
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "_asdict"):
        if getattr(value, "method", "") == "none":
            return "none"
        fields_set = {name: item for name, item in value._asdict().items() if item not in (None, "", False, "none")}
        return ", ".join(f"{name} {_format_value(item)}" for name, item in fields_set.items()) or "none"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_format_value, value)) or "none"
    return one_line(str(value))[:60]


def _origins(run: Run, report: RunReport) -> Iterator[str]:
    """Each value with its origin, then each unknown value with the reason."""
    for field, value, origin in report.estimate.assumptions:
        yield f"  {field} = {_format_value(value)}  <- {one_line(origin)}"
    for field, place in sorted(run.origins.items()):
        if place.kind == "unknown":
            yield f"  {field} = unknown  <- {one_line(place.detail)}"
