"""`memlint check`: lints files and writes a report in each requested format."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import memlint.file_access as file_access
from memlint import __version__
from memlint.commands import options
from memlint.commands.output import to_file, write
from memlint.errors import UsageError
from memlint.findings import SEVERITIES
from memlint.lint.linter import Linter
from memlint.lint.many.merge_reports import as_sequence, merge_files, with_waiver_findings
from memlint.lint.many.pool import lint_files
from memlint.lint.report_file import LintedFile
from memlint.lint.request import LintRequest
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.model import FileReport, Report, RuleFacts
from memlint.repository.files.discovery import FoundFile
from memlint.settings.model import FileSettings

NEEDS_RULES = ("sarif", "html")
SHOWS_NO_FIX = ("gitlab", "checkstyle")
SHOWS_FIRST_FIX = ("concise", *SHOWS_NO_FIX)  # at most the first fix of each finding
SHOWS_FINDINGS_ALONE = ("junit", "sarif", *SHOWS_FIRST_FIX)  # neither runs nor excerpts of files
# With fewer files, reading the cache takes about as long as the check (benchmarks/speed/linters.py).
WORTH_CACHE = 16
# memlint.cli postpones garbage collection for a fast start. From this many files on it runs more often, which saves 20
# MiB in a check of 2,000 published configs: each time that there are so many new objects, and through the older ones
# every so many times. What a fix would write is read by a workspace of its own, whose caches only a collection frees.
MANY_FILES = 64
GC_THRESHOLDS = 10_000, 10


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    if not given.no_cache:
        file_access.start()
    if options.handle_info_flags(given):
        return 0
    if given.watch:
        from memlint.commands.watch import watch

        return watch(given, [program.split()[-1], *arguments])
    pairs = options.formats(given)
    if given.fix and (code := _fix(given)):
        return code
    files = _files(given)
    request = _request(given, pairs, len(files))
    if given.model:
        from memlint.commands.other_model import with_model_for_unknown_names  # late: --model is rarely given

        request = with_model_for_unknown_names(given, request, [file.path for file in files])
    linter = Linter(request)
    reports = with_waiver_findings(merge_files(_linted(given, request, files), len(files)))
    baseline = "" if given.no_ignores else given.baseline or _settings_here(linter).baseline
    if given.write_baseline:
        return _write_baseline(reports, baseline)
    reports, notes = _without_baseline(reports, baseline) if baseline else (reports, ())
    if given.min_severity:
        reports = as_sequence(_severe(reports, given.min_severity), len(reports))
    rules = _rule_facts(linter) if any(name in NEEDS_RULES for name, _ in pairs) else ()
    report = _report(given, reports, rules, notes)
    write(report, pairs, given.colour, files)
    unmatched = _without_config(given.paths, report.files) if given.strict_files else []
    if unmatched:
        raise UsageError(f"{', '.join(unmatched)}: no config that memlint knows")
    return exit_code(report.files, given.fail_on or "", linter, given.exit_zero)


def _report(
    given: options.Options, reports: Sequence[FileReport], rules: tuple[RuleFacts, ...], notes: tuple[str, ...]
) -> Report:
    return Report(
        reports,
        rules,
        __version__,
        notes=notes,
        statistics=given.statistics,
        overview=any(os.path.isdir(path) for path in given.paths or ["."]),
        quiet=given.quiet,
        verbose=given.verbose,
    )


def _settings_here(linter: Linter) -> FileSettings:
    """The settings of a config in the working folder."""
    return linter.settings.of(os.path.join(os.getcwd(), "config.yaml"))


def _linted(given: options.Options, request: LintRequest, files: Sequence[FoundFile]) -> Iterator[LintedFile]:
    """The result of each file; with many files, from the cache if it has a valid one."""
    if len(files) >= MANY_FILES:
        gc.set_threshold(*GC_THRESHOLDS)
    if given.no_cache or not (given.cache_dir or len(files) >= WORTH_CACHE):
        file_access.stop()
        return lint_files(request, files, given.jobs)
    from memlint.lint.many.result_cache import ResultCache, default_folder, is_cacheable  # many files

    if not is_cacheable(request, len(files)):
        file_access.stop()
        return lint_files(request, files, given.jobs)
    cache = ResultCache(given.cache_dir or default_folder(), request, given.paths)
    return cache.lint(files, partial(lint_files, request, jobs=given.jobs))


def _fix(given: options.Options) -> int:
    """Applies fixes before the files are linted. Returns the exit code: 0, or that of a failure."""
    import memlint.commands.fixing as fixing  # the planner

    given.interactive, given.diff, given.rule, given.plan = False, False, [], 0
    try:
        fixing.fix_files(given)
    except fixing.FixBug as bug:
        sys.stderr.write(f"{bug}memlint: {fixing.BUG_NOTE}\n")
        return 2
    return 0


def _files(given: options.Options) -> list[FoundFile]:
    files = options.config_files(given)
    if given.hook:
        from memlint.repository.dependents import with_dependents  # asks git: only for hooks

        return with_dependents(files)
    return files


def _request(given: options.Options, pairs: options.OutputPairs, files: int) -> LintRequest:
    names = {name for name, _ in pairs}
    request = options.lint_request(given, fixes=not (given.no_fixes or names.issubset(SHOWS_NO_FIX)))
    request = request._replace(
        keeps_suppressed=given.no_ignores,
        first_fix=names.issubset(SHOWS_FIRST_FIX),
        findings_alone=names.issubset(SHOWS_FINDINGS_ALONE),
    )
    if "html" not in names:
        return request
    from memlint.lint.what_if import detail_for

    return request._replace(what_if=detail_for(files))


def _severe(reports: Iterable[FileReport], least: str) -> Iterator[FileReport]:
    """The reports without the findings below severity `least`."""
    shown = SEVERITIES[SEVERITIES.index(least) :]
    for file in reports:
        yield file._replace(findings=tuple(item for item in file.findings if item.severity in shown))


def _without_baseline(reports: Sequence[FileReport], path: str) -> tuple[Sequence[FileReport], tuple[str, ...]]:
    from memlint.lint.baseline import without_baseline

    new = without_baseline(reports, path)
    return new.reports, new.notes


def _rule_facts(linter: Linter) -> tuple[RuleFacts, ...]:
    from memlint.lint.rule_facts import rule_facts

    return rule_facts(linter.rules, _settings_here(linter).rules_dirs)


def _parser(program: str) -> options.Parser:
    parser = options.parser(
        program, "Lints training configs: what will run out of memory, why, and what to change.", HOW_TO_READ
    )
    options.add_paths(parser)
    options.add_hardware(parser)
    options.add_rules(parser)
    options.add_settings(parser)
    options.add_output(parser)
    loud = parser.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="findings alone: no tables, hints and totals")
    loud.add_argument("-v", "--verbose", action="store_true", help="every fix of a finding, and why its rule is there")
    options.add_exit(parser)
    parser.add_argument("--no-cache", action="store_true", help="keep no results, and use none that were kept")
    parser.add_argument("--cache-dir", metavar="DIR", help="where results are kept (default: the platform's folder)")
    parser.add_argument("--hook", action="store_true", help="named files are candidates, as pre-commit gives them")
    parser.add_argument("--strict-files", action="store_true", help="exit 2 for a PATH without a config that is known")
    parser.add_argument("--fix", action="store_true", help="apply safe fixes first, as `memlint fix` does")
    parser.add_argument("--unsafe", action="store_true", help="with --fix: fixes that may change the training result")
    parser.add_argument("--watch", action="store_true", help="check again whenever a file changes, until Ctrl-C")
    parser.add_argument("--min-severity", choices=SEVERITIES, help="show no findings below this one")
    parser.add_argument("--no-ignores", action="store_true", help="show what comments, settings and baseline suppress")
    parser.add_argument("--no-fixes", action="store_true", help="look for no ways out: five times faster on many files")
    parser.add_argument("--statistics", action="store_true", help="findings by rule at the end")
    parser.add_argument("--baseline", metavar="FILE", help="findings to accept, as --write-baseline wrote them")
    parser.add_argument("--write-baseline", action="store_true", help="accept every finding there is now, and stop")
    return parser


def _without_config(paths: Sequence[str], reports: Sequence[FileReport]) -> list[str]:
    """The named paths that are not a recognised config and contain none."""
    files = [os.path.abspath(file.path) for file in reports if file.format]
    roots = {root: os.path.abspath(root) for root in paths or ["."] if root != "-"}
    return [root for root, full in roots.items() if not any(f"{file}/".startswith(f"{full}/") for file in files)]


def _write_baseline(reports: Sequence[FileReport], path: str) -> int:
    from memlint.lint.baseline import DEFAULT_BASELINE, new_baseline

    target = path or DEFAULT_BASELINE
    made = new_baseline(reports, target)
    to_file((made.text,), target)
    hint = "" if path else f"; say `baseline: {target}` in memlint.yaml so that it counts"
    sys.stderr.write(f"memlint: {made.accepted} findings accepted in {target}{hint}\n")
    return 0


def exit_code(reports: Iterable[FileReport], fail_on: str, linter: Linter, exit_zero: bool) -> int:
    """2 for an unreadable file or a crash, 1 for a finding of severity `fail_on` or above ("": as the settings say),
    else 0."""
    fails = False
    for file in reports:
        if file.failed:
            return 2
        fails = fails or bool(not exit_zero and file.findings and _fails(file, fail_on, linter))
    return int(fails)


def _fails(file: FileReport, fail_on: str, linter: Linter) -> bool:
    least = SEVERITIES.index(fail_on or linter.settings.of(file.path).fail_on)
    return any(SEVERITIES.index(item.severity) >= least for item in file.findings)
