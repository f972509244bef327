"""`memlint estimate FILE --set KEY=VALUE`: compares the run with itself under other values, or sweeps one key."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from memlint import __version__
from memlint.commands import options
from memlint.commands.other_model import with_model_replaced
from memlint.commands.output import to_file, to_stdout
from memlint.commands.question_options import AUTO, facts_of
from memlint.errors import UsageError
from memlint.question.changes import Change, FileWhatIf, QuestionWhatIf, Variant, Variants, changes_of
from memlint.question.compare import compare_lines, sweep_lines
from memlint.question.model import Question
from memlint.question.plot import plot
from memlint.question.sweep import Sweep, sweep_of
from memlint.report import json
from memlint.report.model import RunReport
from memlint.report.terminal import one_line, style_for


def add_what_if(to: argparse.ArgumentParser) -> None:
    group = to.add_argument_group("what if", "of one file, or of a question; nothing is written")
    group.add_argument(
        "--set",
        dest="changes",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="the framework's key, a field of the run, gpu or gpus; null takes a key away",
    )
    group.add_argument(
        "--try",
        dest="tries",
        action="append",
        default=[],
        metavar='"KEY=VALUE ..."',
        help="one more column, upon --set",
    )
    group.add_argument("--sweep", metavar="KEY=A..B", help="a row for each value: 1024..32768 (doubled), 1..8:1, 1,2,4")
    group.add_argument("--plot", metavar="FILE", help="the sweep as .svg, .png or .pdf (needs the plot extra)")


def wanted(given: options.Options) -> bool:
    """Whether the options ask for variants. Raises UsageError if one of options that belong together is missing."""
    if given.plot and not given.sweep:
        raise UsageError("--plot draws a sweep: add --sweep KEY=A..B")
    if given.sweep and given.tries:
        raise UsageError("--sweep and --try: one of them")
    return bool(given.changes or given.tries or given.sweep)


def what_if(given: options.Options, pairs: options.OutputPairs, question: Question | None) -> int:
    """Prints the comparison or the sweep. Exit code 0; 2 if no variant has a figure.

    Raises UsageError for a value of `--set` or `--try` that the framework refuses; a sweep says so in its row instead.
    """
    target, label = _target(given, question)
    base = target.variant("as it is", ()).run._replace(path=label)
    changes = changes_of(given.changes, "--set")
    if given.sweep:
        swept = sweep_of(target, given.sweep, changes)
        if given.plot:
            plot(swept, given.plot)
        return _print(given, pairs, base, swept.variants, swept)
    variants = _variants(target, changes, given.tries)
    for one in variants:
        if one.refused:
            raise UsageError(f"{one.label}: {one_line(one.refused[0])}")
    return _print(given, pairs, base, variants, None)


def _target(given: options.Options, question: Question | None) -> tuple[Variants, str]:
    if question is not None:
        return QuestionWhatIf(question, facts_of(given)), f"{question.model or 'dimensions'} as asked"
    if given.gpus == AUTO:
        raise UsageError("--gpus auto with --set: name a number")
    found = options.config_files(given)
    if len(found) != 1:
        raise UsageError(f"--set, --try and --sweep are for one file; {len(found)} were named")
    request = with_model_replaced(given, options.lint_request(given, fixes=False), [found[0].path])
    return FileWhatIf(request, found[0].path), found[0].path


def _variants(target: Variants, changes: tuple[Change, ...], tries: list[str]) -> tuple[Variant, ...]:
    """The columns of the comparison: one for `--set` alone, or one for each `--try`, together with `--set`."""
    label = " ".join(one.text for one in changes)
    columns: tuple[Variant, ...] = (target.variant(label, changes),) if changes else ()
    for text in tries:
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"--try {text}: {error}") from None
        columns += (target.variant(text, (*changes, *changes_of(words, "--try"))),)
    return columns


def _print(
    given: options.Options,
    pairs: options.OutputPairs,
    base: RunReport,
    variants: tuple[Variant, ...],
    swept: Sweep | None,
) -> int:
    for name, path in pairs:
        style = style_for(sys.stdout, colour=given.colour if path is None else False)
        lines = compare_lines(base, variants, style) if swept is None else sweep_lines(base, swept, style)
        text = json.dump(_as_json(base, variants)) if name == "json" else "\n".join(lines) + "\n"
        if path is None:
            to_stdout(text)
        else:
            to_file((text,), path, frozenset(given.paths))
    return 0 if any(one.run.estimate.phases for one in variants) else 2


def _as_json(base: RunReport, variants: tuple[Variant, ...]) -> dict[str, Any]:
    rows = [{"label": one.label, "refused": list(one.refused), "run": json.run(one.run)} for one in variants]
    head = {"schema_version": json.SCHEMA_VERSION, "memlint_version": __version__}
    return {**head, "as_it_is": json.run(base), "variants": rows}
