"""`memlint estimate`: prints the memory table of each run, or the answer to a question without a file."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from memlint import __version__
from memlint.commands import options
from memlint.commands.other_model import with_model_replaced
from memlint.commands.output import protected_paths, to_file, to_stdout
from memlint.commands.question_options import AUTO, add_question, asked, cards, facts_of
from memlint.commands.what_if import add_what_if, wanted, what_if
from memlint.errors import UsageError
from memlint.lint.many.merge_reports import merge_reports
from memlint.lint.many.pool import lint_files
from memlint.memory.arithmetic import arithmetic
from memlint.question.answer import Answer, answer
from memlint.question.cards import CardNumbers, fewest_cards
from memlint.question.model import Question
from memlint.question.render import answer_lines, card_lines, default_lines, file_lines, serving_lines
from memlint.question.serving import ServingRoom, serving
from memlint.question.write import write_files
from memlint.report import json, table
from memlint.report.arithmetic import lines as math_lines
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.model import Report
from memlint.report.terminal import Style, style_for

FORMATS = ("text", "json")


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    options.fill_defaults(given)
    question = asked(given)
    if options.handle_info_flags(given):
        return 0
    pairs = options.formats(given, FORMATS, "estimate")
    if question is not None:
        return _answer(question, given, pairs)
    if wanted(given):
        return what_if(given, pairs, None)
    if given.gpus == AUTO:
        raise UsageError("--gpus auto needs a question (--model); for files: memlint plan FILE --goal cards")
    found = options.config_files(given)
    request = options.lint_request(given, fixes=False)._replace(assumptions=True)
    request = with_model_replaced(given, request, [file.path for file in found])
    reports = merge_reports((file.report for file in lint_files(request, found, given.jobs)), len(found))
    report = Report(tuple(reports), (), __version__)
    for name, path in pairs:
        text = json.render_estimates(report) if name == "json" else _table(report, given, path)
        if path is None:
            to_stdout(text)
        else:
            to_file((text,), path, protected_paths(report.files, found))
    if any(file.failed for file in report.files):
        return 2
    return 0 if any(file.runs for file in report.files) else 2  # a wrong path must not look like a run that fits


def _parser(program: str) -> options.Parser:
    about = "The memory of each run, or of one that is asked about without a file: phases by components, per GPU."
    parser = options.parser(program, about, HOW_TO_READ)
    options.add_paths(parser)
    options.add_hardware(parser, cards)
    add_question(parser)
    add_what_if(parser)
    options.add_settings(parser)
    options.add_output(parser, FORMATS)
    return parser


def _table(report: Report, given: options.Options, path: str | None) -> str:
    return table.render(report, _style(given, path))


def _style(given: options.Options, path: str | None) -> Style:
    return style_for(sys.stdout, colour=given.colour if path is None else False)


def _answer(question: Question, given: options.Options, pairs: options.OutputPairs) -> int:
    """Prints the answer to a question. Exit code 0; 2 if nothing can be estimated or the framework refuses the run."""
    facts = facts_of(given)
    if wanted(given):
        if given.write_config or given.gpus == AUTO:
            raise UsageError("--set, --try and --sweep compare figures: leave out --write-config and --gpus auto")
        return what_if(given, pairs, question)
    fewest = fewest_cards(question, facts) if given.gpus == AUTO else None
    found = fewest.answer if fewest is not None else answer(question, facts)
    left = serving(found, facts) if question.inference else None
    written = write_files(found.files, given.write_config) if given.write_config else ()
    for name, path in pairs:
        if name == "json":
            text = json.dump(_as_json(found, fewest, left))
        else:
            text = "\n".join(_lines(found, fewest, left, written, _style(given, path), given.math)) + "\n"
        if path is None:
            to_stdout(text)
        else:
            to_file((text,), path, frozenset(written))
    return 0 if found.run.estimate.phases and not found.refused else 2


def _lines(
    found: Answer,
    fewest: CardNumbers | None,
    left: ServingRoom | None,
    written: tuple[str, ...],
    style: Style,
    given_math: bool,
) -> Iterator[str]:
    yield from answer_lines(found, style)
    is_server = "cache_requests" in found.run.estimate.details
    yield from serving_lines(left, found.question.requests or 1, is_server, found.run.hardware.gpus or 1)
    if fewest is not None:
        yield from card_lines(fewest, found.question.gpu)
    if given_math:
        yield from _math_lines(found, style)
    yield from default_lines(found.files.taken, style)
    yield from file_lines(found, written)


def _math_lines(found: Answer, style: Style) -> Iterator[str]:
    derivation = arithmetic(found.neutral, found.run.estimate)
    if derivation is not None:
        yield ""
        yield from (f"  {line}" if line else "" for line in math_lines(derivation, found.run.estimate, style))


def _as_json(found: Answer, fewest: CardNumbers | None, left: ServingRoom | None) -> dict[str, Any]:
    question = {field: value for field, value in found.question._asdict().items() if value not in (None, "", False)}
    files = {"main": found.files.main, "contents": dict(found.files.contents), "start": found.files.start}
    return {
        "schema_version": json.SCHEMA_VERSION,
        "memlint_version": __version__,
        "runs": [json.run(one) for one in found.report.runs],
        "question": question,
        "defaults": [one._asdict() for one in found.files.taken],
        "refused": [one.message for one in found.refused],
        "files": files,
        **({"serving": left._asdict()} if left is not None else {}),
        **({"cards": {"count": fewest.number, "by_card": dict(fewest.by_card)}} if fewest is not None else {}),
    }
