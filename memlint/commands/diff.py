"""`memlint diff BASE [HEAD]`: compares memory and findings of the runs that a branch changes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from memlint import __version__
from memlint.commands import options
from memlint.commands.output import to_file, to_screen
from memlint.errors import UsageError
from memlint.lint.request import LintRequest
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.comparison import json as diff_json
from memlint.report.comparison import markdown as diff_markdown
from memlint.report.comparison import text as diff_text
from memlint.report.comparison.model import DiffReport, FileDiff, importance
from memlint.report.model import location_key
from memlint.report.progress import Busy
from memlint.report.terminal import one_line, style_for
from memlint.repository.files.commit import changed
from memlint.repository.files.git import git, git_or_empty
from memlint.revisions.file_change import file_diff
from memlint.revisions.side import Side

RENDER = {"markdown": diff_markdown.render, "json": diff_json.render}
FORMATS = ("text", *RENDER)
EPILOG = f"""\
Compares with the commit where the branch left BASE (the merge base), so that what happened on BASE since does
not count. Without HEAD the working tree is compared, untracked files included. A config is affected when it
changes itself, or when a file that it names (a DeepSpeed JSON, an accelerate config, a model folder, memlint's
settings) changes. --fail-on regression exits 1 where a verdict gets worse or a new error appears.

{HOW_TO_READ}
"""


def run(program: str, arguments: list[str]) -> int:
    given = _parser(program).parse_args(arguments)
    options.fill_defaults(given)
    pairs = options.formats(given, FORMATS, "diff")
    root = os.fsdecode(git(".", "rev-parse", "--show-toplevel")).strip()
    base, notes = _base(root, given.base, given.head or "HEAD", given.direct)
    head = _revision(root, given.head) if given.head else None
    request = options.lint_request(given)._replace(cwd=root)
    with Busy(f"comparing with {one_line(given.base)}"):
        report = compare(root, base, head, request)._replace(
            base=given.base, head=given.head or "the working tree", version=__version__, notes=notes
        )
    compared = frozenset(os.path.realpath(os.path.join(root, file.path)) for file in report.files)
    for name, path in pairs:
        text = _rendered(report, name, given.colour if path is None else False)
        if path is None:
            to_screen(text, name == "text")
        else:
            to_file((text,), path, compared)
    return int(given.fail_on == "regression" and any(file.is_regression for file in report.files))


def _parser(program: str) -> options.Parser:
    parser = options.parser(program, "What a branch changes: peaks, verdicts and findings, before and after.", EPILOG)
    parser.add_argument("base", metavar="BASE", help="a branch, tag or commit")
    parser.add_argument("head", metavar="HEAD", nargs="?", help="the other side (default: the working tree)")
    parser.add_argument("--direct", action="store_true", help="compare with BASE itself, not with the merge base")
    options.add_hardware(parser)
    options.add_rules(parser)
    plugin_options = parser.add_argument_group("plug-ins")
    options.add_plugin(plugin_options)
    options.add_allow_plugins(plugin_options)
    group = parser.add_argument_group("output")
    group.add_argument(
        "--format", action="append", default=[], metavar="NAME", help=f"{', '.join(FORMATS)} (default: text)"
    )
    group.add_argument("--output", action="append", default=[], metavar="FILE", help="where the format before it goes")
    options.add_colour(group)
    group.add_argument("--fail-on", choices=("regression", "never"), default="never", help="what exits 1")
    return parser


def _revision(root: str, name: str) -> str:
    """The hash of the commit that a name stands for. Raises UsageError."""
    found = git_or_empty(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if not found:
        raise UsageError(f"no commit {name!r} here; in CI, fetch it first (actions/checkout: fetch-depth: 0)")
    return found.decode("ascii").strip()


def _base(root: str, name: str, head: str, direct: bool) -> tuple[str, tuple[str, ...]]:
    """The hash of the commit to compare with, and notes about it."""
    base = _revision(root, name)
    if direct:
        return base, ()
    merge_base = git_or_empty(root, "merge-base", base, _revision(root, head)).decode("ascii").strip()
    if merge_base:
        return merge_base, ()
    return base, (f"no common ancestor with {name} in this clone: compared with {name} itself",)


def compare(root: str, base: str, head: str | None, request: LintRequest) -> DiffReport:
    """Compares the commit `base` with `head` (None: the working tree). `request.cwd` is the repository's root."""
    pairs = changed(root, base, head)
    with Side(root, base, request._replace(fixes=False)) as before, Side(root, head, request) as after:
        files = sorted(_files(before, after, pairs), key=importance)
    reported = tuple(_without_repeats(file for file in files if file.is_worth_reporting))
    return DiffReport("", "", reported, quiet=len(files) - len(reported))


def _files(before: Side, after: Side, pairs: Sequence[tuple[str | None, str | None]]) -> Iterator[FileDiff]:
    """The comparison of each config that the changed files affect. `pairs`: (old name, new name) of changed files."""
    renamed_from = {new: old for old, new in pairs if old and new}
    touched = {name for pair in pairs for name in pair if name}
    old_names, new_names = before.affected(touched), after.affected(touched)
    moved_away = {old for new, old in renamed_from.items() if new != old}
    for name in sorted(new_names | {name for name in old_names if after.has(name)}):
        old_name = renamed_from.get(name, name)
        old = (
            before.lint(old_name)
            if before.has(old_name) and old_name not in moved_away - {renamed_from.get(name)}
            else None
        )
        yield from filter(None, [file_diff(name, old_name, old, after.lint(name), touched)])
    for name in sorted(old_names):
        if not after.has(name) and name not in moved_away:
            yield from filter(None, [file_diff(name, name, before.lint(name), None, touched)])


def _without_repeats(files: Iterable[FileDiff]) -> Iterator[FileDiff]:
    """The files with each finding once. A finding in a shared file stays only with the first config that has it."""
    seen: set[tuple[object, ...]] = set()
    for file in files:
        new = tuple(item for item in file.new if location_key(item) not in seen)
        resolved = tuple(item for item in file.resolved if ("gone", *location_key(item)) not in seen)
        seen |= {location_key(item) for item in new} | {("gone", *location_key(item)) for item in resolved}
        yield file._replace(new=new, resolved=resolved)


def _rendered(report: DiffReport, name: str, colour: bool | None) -> str:
    if name in RENDER:
        return RENDER[name](report)
    return diff_text.render(report, style_for(sys.stdout, colour=colour))
