"""Merges the reports of single files, so that each finding appears once, under the file that it points to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.lint.report_file import LintedFile
from memlint.lint.suppress import today
from memlint.report.model import FileReport, RunReport, location_key
from memlint.suppressions.apply import waiver_findings
from memlint.suppressions.waiver import Waiver

MANY = 256  # from this many reports on, they are packed: few are kept as they are


class MergedFiles(NamedTuple):
    """The reports, and what the waivers of settings did.

    `waivers`: those that apply to one of the files. `used`: those that suppressed something. `require_reason`: whether
    the settings of one of these files require a reason for each.
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

    A DeepSpeed JSON is linted alone and through every YAML that names it: of equal findings the one with more related
    places and fixes stays. A file that another file's finding points to gets a report behind that file's.
    """
    if number <= MANY:
        return _merge_at_once(reports)
    from memlint.lint.packed_reports import PackedSequence  # many files

    order: dict[str, None] = {}
    shared: set[str] = set()  # files with findings in other files, those other files, and files reported twice
    packed = PackedSequence[FileReport]()
    for report in reports:
        pointed = {item.location.path for item in report.findings} | {run.path for run in report.runs}
        pointed -= {report.path}
        if pointed or report.path in order:
            shared |= {report.path, *pointed}
        else:
            (report,) = _merge_at_once((report,))
        order |= dict.fromkeys((report.path, *sorted(pointed)))
        packed.append(report)
    return PackedSequence(_with_shared(packed, order, shared)) if shared else packed


def as_sequence(reports: Iterable[FileReport], number: int) -> Sequence[FileReport]:
    """`reports` (about `number` of them) as a sequence that can be iterated more than once."""
    if number <= MANY:
        return tuple(reports)
    from memlint.lint.packed_reports import PackedSequence  # many files

    return PackedSequence(reports)


def _with_shared(packed: Iterable[FileReport], order: Iterable[str], shared: set[str]) -> Iterator[FileReport]:
    merged = {report.path: report for report in _merge_at_once(item for item in packed if item.path in shared)}
    others = (report for report in packed if report.path not in shared)
    for path in order:
        yield merged.pop(path) if path in shared else next(others)


def _merge_at_once(reports: Iterable[FileReport]) -> tuple[FileReport, ...]:
    best: dict[tuple[object, ...], Finding] = {}
    order: dict[str, FileReport] = {}
    for report in reports:
        for path in (report.path, *sorted({item.location.path for item in report.findings})):
            previous = order.setdefault(path, FileReport(path, "", ()))
            latest = report if path == report.path else previous
            order[path] = latest._replace(texts={**previous.texts, **report.texts} if previous.texts else report.texts)
        for item in report.findings:
            key = location_key(item)
            best[key] = max(best[key], item, key=_richness) if key in best else item
    by_path: dict[str, list[Finding]] = {path: [] for path in order}
    for item in best.values():
        by_path[item.location.path].append(item)
    return tuple(
        report._replace(findings=tuple(sorted(by_path[path], key=location_key)), runs=tuple(_own_runs(report, order)))
        for path, report in order.items()
    )


def _own_runs(report: FileReport, others: Mapping[str, FileReport]) -> Iterator[RunReport]:
    """The runs of a file. A script's run that stands in a configuration file is that file's, where it is linted too."""
    for run in report.runs:
        if run.path == report.path or run.path not in others or not others[run.path].runs:
            yield run


def _richness(item: Finding) -> tuple[int, int]:
    return len(item.related), len(item.fixes)


def with_waiver_findings(merged: MergedFiles) -> Sequence[FileReport]:
    """The reports with findings about unused and expired waivers, which are known once every file was linted."""
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
