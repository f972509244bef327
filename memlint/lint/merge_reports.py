"""Reports of single files to the report of a run: each finding once, under the file that it points to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.lint.packed_reports import MANY, Packed, reread
from memlint.lint.report_file import LintedFile
from memlint.lint.suppress import today
from memlint.report.model import FileReport, location_key
from memlint.suppressions.apply import waiver_findings
from memlint.suppressions.waiver import Waiver


class MergedFiles(NamedTuple):
    """`waivers`: suppressions in settings that speak about a file; `used`: those that hid something;
    `require_reason`: whether the settings of one of these files want a reason for each."""

    reports: Sequence[FileReport]
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()
    require_reason: bool = False


def merge_files(files: Iterable[LintedFile], number: int) -> MergedFiles:
    """What was said of some `number` files, which are linted one by one as they are asked for."""
    seen = _Waivers()
    reports = merge_reports(seen.reports(files), number)
    return MergedFiles(reports, tuple(seen.waivers), frozenset(seen.used), seen.require_reason)


class _Waivers:
    """Keeps what suppressions in settings did, while reports pass by."""

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
    """The same findings, each once and under the file that it points to. `number`: about how many reports there are.

    A DeepSpeed JSON is linted alone and through every YAML that names it: what both say is said once, in the words
    that have more to show. A file that only took part gets a report behind the one that led to it.
    """
    if number <= MANY:
        return _merge_at_once(reports)
    order: dict[str, None] = {}
    shared: set[str] = set()  # files that share a finding's place with another
    packed = Packed[FileReport]()
    for report in reports:
        pointed = {item.location.path for item in report.findings} - {report.path}
        if pointed or report.path in order:
            shared |= {report.path, *pointed}
        else:
            (report,) = _merge_at_once((report,))
        order |= dict.fromkeys((report.path, *sorted(pointed)))
        packed.append(report)
    return Packed(_with_shared(packed, order, shared)) if shared else packed


def _with_shared(packed: Packed[FileReport], order: Iterable[str], shared: set[str]) -> Iterator[FileReport]:
    together = {report.path: report for report in _merge_at_once(item for item in packed if item.path in shared)}
    alone = (report for report in packed if report.path not in shared)
    for path in order:
        yield together.pop(path) if path in shared else next(alone)


def _merge_at_once(reports: Iterable[FileReport]) -> tuple[FileReport, ...]:
    best: dict[tuple[object, ...], Finding] = {}
    order: dict[str, FileReport] = {}
    for report in reports:
        for path in (report.path, *sorted({item.location.path for item in report.findings})):
            known = order.setdefault(path, FileReport(path, "", ()))
            latest = report if path == report.path else known
            order[path] = latest._replace(texts={**known.texts, **report.texts} if known.texts else report.texts)
        for item in report.findings:
            key = location_key(item)
            best[key] = max(best[key], item, key=_richness) if key in best else item
    by_path: dict[str, list[Finding]] = {path: [] for path in order}
    for item in best.values():
        by_path[item.location.path].append(item)
    return tuple(
        report._replace(findings=tuple(sorted(by_path[path], key=location_key))) for path, report in order.items()
    )


def _richness(item: Finding) -> tuple[int, int]:
    return len(item.related), len(item.fixes)


def with_waiver_findings(merged: MergedFiles) -> Sequence[FileReport]:
    """With what is wrong with the suppressions in settings, now that every file was looked at."""
    if not merged.waivers:
        return merged.reports
    found: dict[str, list[Finding]] = {}
    for item in waiver_findings(merged.waivers, merged.used, today(), merged.require_reason):
        place = item.location._replace(path=name_from_here(item.location.path))
        found.setdefault(place.path, []).append(item._replace(location=place))
    more = tuple(FileReport(path, "", tuple(items)) for path, items in sorted(found.items()))
    return reread(chain(merged.reports, more), len(merged.reports)) if more else merged.reports


def name_from_here(path: str) -> str:
    """`path` from the working directory; as it is where it lies outside."""
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative
