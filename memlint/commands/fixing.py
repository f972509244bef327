"""Applies the fixes of findings to files, or prints them as a patch: for `memlint fix` and `memlint check --fix`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile

from memlint._record import NamedTuple
from memlint.commands import options
from memlint.commands.consent import Consent
from memlint.commands.other_model import with_model_for_unknown_names
from memlint.errors import UsageError
from memlint.findings import Finding
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.write import Write, WriteRefused, write_all
from memlint.lint import fix_files as fixing
from memlint.lint.fix_files import FixedFiles, FixRequest, MakeLinter, linter_maker, new_errors, parser_disagreements
from memlint.lint.linter import Linter
from memlint.report.progress import watched

BUG_NOTE = "This is a bug in memlint, not in your config: nothing was written. Please report it."


class FixBug(Exception):
    """A fix broke a law, which is a bug of memlint. Nothing was written."""


class WrittenFiles(NamedTuple):
    """`files`: how many files were changed. `linter`: makes a linter with the same rules that sees the fixed files."""

    paths: tuple[str, ...]
    files: int
    linter: Callable[[], Linter]


def fix_files(given: options.Options) -> WrittenFiles:
    """Fixes the files that the options choose, and reports to standard error. Raises UsageError and FixBug."""
    if "-" in given.paths:
        raise UsageError("fix writes files: standard input is none")
    paths = tuple(item.path for item in options.config_files(given))
    request = options.lint_request(given)
    request = with_model_for_unknown_names(given, request, paths)
    make = linter_maker(request)
    fixed = _fixed(paths, FixRequest(given.unsafe, options.words(given.rule), given.plan), make, given, request.cwd)
    if fixed.broken:
        raise FixBug("".join(_bug_lines(fixed)))
    done = "would be fixed" if given.diff else "fixed"
    sys.stderr.write("".join(_outcome(fixed, done)))
    if fixed.contents:
        _refuse_harm(paths, fixed, make)
    files = _print_patch(fixed) if given.diff else _write_files(fixed, paths)
    sys.stderr.write(f"memlint: {len(fixed.applied)} {done} in {files} file{'s' * (files != 1)}\n")
    return WrittenFiles(paths, files, partial(make, fixed.contents, False))


def _fixed(
    paths: tuple[str, ...], wanted: FixRequest, make: MakeLinter, given: options.Options, folder: str
) -> FixedFiles:
    if not given.interactive:
        return fixing.fix_files(watched(paths, len(paths)), wanted, make)
    consent = Consent(folder)
    return fixing.fix_files(takewhile(lambda _: not consent.is_over, paths), wanted, make, consent.accepts)


def _refuse_harm(paths: tuple[str, ...], fixed: FixedFiles, make: MakeLinter) -> None:
    """Raises UsageError if another file would get a new error, FixBug if a second parser disagrees with the result."""
    errors = tuple(new_errors(paths, fixed, make))
    if errors:
        raise UsageError("; ".join(errors) + ": nothing was written; fix the files that share it one by one")
    disputed = tuple(parser_disagreements(fixed.before, fixed.contents))
    if disputed:
        raise FixBug("".join(f"{line}\n" for line in disputed))


def _print_patch(fixed: FixedFiles) -> int:
    texts = [patch(path.replace(os.sep, "/"), fixed.before[path], new) for path, new in fixed.contents.items()]
    sys.stdout.flush()
    sys.stdout.buffer.write(b"".join(texts))
    sys.stdout.buffer.flush()
    return sum(map(bool, texts))


def _write_files(fixed: FixedFiles, paths: tuple[str, ...]) -> int:
    """Writes all files or none and returns their number. Raises UsageError."""
    writes = [Write(path, fixed.before[path], fixed.contents[path]) for path in fixed.changed]
    roots = {os.getcwd(), *(os.path.dirname(os.path.abspath(path)) for path in paths)}
    try:
        write_all(writes, roots)
    except WriteRefused as error:
        raise UsageError(str(error)) from None
    return len(writes)


def _outcome(fixed: FixedFiles, done: str) -> Iterator[str]:
    """A line for each finding. `done`: the words for those with a fix: "fixed", or "would be fixed" under --diff. Their
    lines are not told: fixes before them moved these."""
    for finding, fix in fixed.applied:
        yield f"{finding.location.path}: {finding.rule} {done}: {fix.title}\n"
    for finding, reason in fixed.passed_over:
        yield f"{_place(finding)}: {finding.rule} not fixed: {reason}\n"


def _bug_lines(fixed: FixedFiles) -> Iterator[str]:
    for finding, law in fixed.broken:
        yield f"{_place(finding)}: {finding.rule}: the fix breaks the law `{law.law}`: {law.detail}\n"


def _place(finding: Finding) -> str:
    return f"{finding.location.path}:{finding.location.line}"
