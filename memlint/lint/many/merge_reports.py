"""Merges the reports of single files, so that each finding appears once, under the file that it points to.

Reports of `sft.yaml` and of `ds.json`, which it names, go in: both have the same finding about `ds.json`. Two reports
come out, and that of `ds.json` alone has the finding.

Three things are left out: a finding that another report has as well (here), one that another finding of its file says
better (`repeated_findings`), and what a command and the program that it starts both say (`started_runs`). Reports of
many files are not held in memory: only those of files that point to each other wait for one another (`_Groups`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.lint.repeated_findings import without_repetitions
from memlint.lint.report_file import LintedFile
from memlint.lint.started_runs import commands_of, file_of, reported_twice, shown_runs, without_runs_of_scripts
from memlint.lint.suppress import today
from memlint.report.model import FileReport, location_key
from memlint.suppressions.apply import waiver_findings
from memlint.suppressions.waiver import Waiver

MANY = 256  # more reports than this are stored packed (lint.many.packed_reports)


class MergedFiles(NamedTuple):
    """The merged reports, and the waivers (suppressions in settings) of all files.

    `waivers`: those that apply to at least one file. `used`: those that suppressed a finding. `require_reason`: whether
    the settings of a file with waivers require a reason for each.
    """

    reports: Sequence[FileReport]
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()
    require_reason: bool = False


def merge_files(files: Iterable[LintedFile], number: int) -> MergedFiles:
    """Merges the reports of about `number` files. `files` is consumed one by one."""
    recorder = _WaiverRecorder()
    reports = merge_reports(recorder.reports(files), number)
    return MergedFiles(reports, tuple(recorder.waivers), frozenset(recorder.used), recorder.require_reason)


class _WaiverRecorder:
    """Records the waivers of each file while its report passes through."""

    def __init__(self) -> None:
        self.waivers: dict[Waiver, None] = {}
        self.used: set[Waiver] = set()
        self.require_reason = False

    def reports(self, files: Iterable[LintedFile]) -> Iterator[FileReport]:
        for file in files:
            self.waivers.update(dict.fromkeys(file.waivers))
            self.used.update(file.used)
            self.require_reason = self.require_reason or bool(file.waivers and file.require_reason)
            yield file.report


def merge_reports(reports: Iterable[FileReport], number: int = 0) -> Sequence[FileReport]:
    """The reports with each finding once, under the file that it points to. `number`: about how many reports there are.

    A DeepSpeed JSON is linted alone and through every YAML that names it. Of equal findings the one with more related
    places and fixes is kept. A file that has no report yet, but is pointed to by a finding, gets one right after the
    report of that finding.
    """
    if number <= MANY:
        return _merge_at_once(reports)
    from memlint.lint.many.packed_reports import PackedSequence  # many files

    order: dict[str, None] = {}
    groups = _Groups()
    packed = PackedSequence[FileReport]()
    for number, report in enumerate(reports):
        pointed = {item.location.path for item in report.findings} | {run.path for run in report.runs}
        pointed -= {report.path}
        commands = {file_of(place) for place in (*commands_of(report), *report.commanded)} - {report.path}
        together = pointed | commands | set(report.starts)
        if together or report.path in order or report.path in groups.group_of:
            groups.join(report.path, together)
        elif report.findings or report.runs:
            (report,) = _merge_at_once((report,))
        groups.last[report.path] = number
        order |= dict.fromkeys((report.path, *sorted(pointed)))
        packed.append(report)
    return PackedSequence(_merged_by_group(packed, order, groups)) if groups.group_of else packed


class _Groups:
    """Files that must be merged together, as a union-find: those whose findings point to each other or that have
    several reports.

    `group_of`: the parent of each such file; the root, its own parent, stands for the group. `last`: the index of the
    last report of each file.
    """

    def __init__(self) -> None:
        self.group_of: dict[str, str] = {}
        self.last: dict[str, int] = {}

    def of(self, path: str) -> str:
        """The root of the group of `path`."""
        while (above := self.group_of[path]) != path:
            self.group_of[path] = path = self.group_of[above]
        return path

    def join(self, path: str, others: Iterable[str]) -> None:
        """Puts files into one group."""
        group = self.of(self.group_of.setdefault(path, path))
        for other in others:
            self.group_of[self.of(self.group_of.setdefault(other, other))] = group

    def ends(self) -> Mapping[str, int]:
        """The index of the last report of each group, by the group's root."""
        found: dict[str, int] = {}
        for path in self.group_of:
            group = self.of(path)
            found[group] = max(found.get(group, 0), self.last.get(path, 0))
        return found


def as_sequence(reports: Iterable[FileReport], number: int) -> Sequence[FileReport]:
    """`reports` (about `number` of them) as a sequence that can be iterated more than once."""
    if number <= MANY:
        return tuple(reports)
    from memlint.lint.many.packed_reports import PackedSequence  # many files

    return PackedSequence(reports)


def _merged_by_group(packed: Iterable[FileReport], order: Iterable[str], groups: _Groups) -> Iterator[FileReport]:
    """The reports in `order`, each group merged as soon as its last report was read.

    Few reports wait at a time: the files of a group often lie in one folder.
    """
    ends = groups.ends()
    waiting: dict[str, list[FileReport]] = {}
    ready: dict[str, FileReport] = {}
    left = iter(order)
    wanted = next(left, None)
    for number, report in enumerate(packed):
        if report.path in groups.group_of:
            group = groups.of(report.path)
            waiting.setdefault(group, []).append(report)
            if number == ends[group]:
                ready.update((merged.path, merged) for merged in _merge_at_once(waiting.pop(group)))
        else:
            ready[report.path] = report
        while wanted in ready:
            yield ready.pop(wanted)
            wanted = next(left, None)


def _merge_at_once(reports: Iterable[FileReport]) -> tuple[FileReport, ...]:
    best: dict[tuple[object, ...], Finding] = {}
    own: set[tuple[object, ...]] = set()  # the findings of a file's own report, which come before those of others
    order: dict[str, FileReport] = {}
    given = tuple(reports)
    for first, report in zip(given, without_runs_of_scripts(given), strict=True):
        for path in (report.path, *sorted({item.location.path for item in first.findings})):
            previous = order.setdefault(path, FileReport(path, "", ()))
            latest = report if path == report.path else previous
            order[path] = latest._replace(texts={**previous.texts, **report.texts} if previous.texts else report.texts)
        for item in report.findings:
            key = location_key(item)
            best[key] = max(best[key], item, key=_richness) if key in best else item
            own |= {key} if item.location.path == report.path else set()
    by_path: dict[str, list[Finding]] = {path: [] for path in order}
    repeated = reported_twice(order.values(), best.values())
    found = (item for key, item in best.items() if key not in repeated)
    own_first = sorted(found, key=lambda item: location_key(item) not in own)
    for item in without_repetitions(own_first):
        by_path[item.location.path].append(item)
    return tuple(
        report._replace(findings=tuple(sorted(by_path[path], key=location_key)), runs=tuple(shown_runs(report, order)))
        for path, report in order.items()
    )


def _richness(item: Finding) -> tuple[int, bool]:
    return len(item.related), bool(item.fixes)


def with_waiver_findings(merged: MergedFiles) -> Sequence[FileReport]:
    """The reports, with findings about unused and expired waivers. Only after the last file is it known which are."""
    if not merged.waivers:
        return merged.reports
    found: dict[str, list[Finding]] = {}
    for item in waiver_findings(merged.waivers, merged.used, today(), merged.require_reason):
        place = item.location._replace(path=name_from_here(item.location.path))
        found.setdefault(place.path, []).append(item._replace(location=place))
    more = tuple(FileReport(path, "", tuple(items)) for path, items in sorted(found.items()))
    return as_sequence(chain(merged.reports, more), len(merged.reports)) if more else merged.reports


def name_from_here(path: str) -> str:
    """`path` relative to the working directory; unchanged if it lies outside."""
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative
