"""Reports of single files to the report of a run: each finding once, under the file it points to, less the baseline."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

import memlint.suppressions.baseline as baseline
from memlint._record import NamedTuple
from memlint.commands.output import to_file
from memlint.errors import UsageError
from memlint.findings import Finding
from memlint.lint.linter import Linted
from memlint.lint.packed_reports import LOOSE, Packed, kept
from memlint.lint.suppress import today
from memlint.report.model import FileReport, location_key
from memlint.suppressions.apply import Waiver, waiver_findings

DEFAULT_BASELINE = "memlint-baseline.json"


class Gathered(NamedTuple):
    """`waivers`: suppressions in settings that speak about a file; `used`: those that hid something."""

    reports: Sequence[FileReport]
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()


def gathered(told: Iterable[Linted], number: int) -> Gathered:
    """What was said of some `number` files, which are looked at one by one."""
    waivers: dict[Waiver, None] = {}
    used: set[Waiver] = set()

    def reports() -> Iterator[FileReport]:
        for item in told:
            waivers.update(dict.fromkeys(item.waivers))
            used.update(item.used)
            yield item.report

    found = merged(reports(), number)
    return Gathered(found, tuple(waivers), frozenset(used))


def merged(reports: Iterable[FileReport], number: int = 0) -> Sequence[FileReport]:
    """The same findings, each once and under the file that it points to. `number`: about how many reports there are.

    A DeepSpeed JSON is linted alone and through every YAML that names it: what both say is said once, in the words
    that have more to show. A file that only took part gets a report behind the one that led to it.
    """
    if number <= LOOSE:
        return _together(reports)
    order: dict[str, None] = {}
    shared: set[str] = set()  # files that share a finding's place with another
    told = Packed[FileReport]()
    for report in reports:
        pointed = {item.location.path for item in report.findings} - {report.path}
        if pointed or report.path in order:
            shared |= {report.path, *pointed}
        else:
            (report,) = _together((report,))
        order |= dict.fromkeys((report.path, *sorted(pointed)))
        told.append(report)
    return Packed(_with_shared(told, order, shared)) if shared else told


def _with_shared(told: Packed[FileReport], order: Iterable[str], shared: set[str]) -> Iterator[FileReport]:
    together = {report.path: report for report in _together(item for item in told if item.path in shared)}
    alone = (report for report in told if report.path not in shared)
    for path in order:
        yield together.pop(path) if path in shared else next(alone)


def _together(reports: Iterable[FileReport]) -> tuple[FileReport, ...]:
    best: dict[tuple[object, ...], Finding] = {}
    order: dict[str, FileReport] = {}
    for report in reports:
        for path in (report.path, *sorted({item.location.path for item in report.findings})):
            known = order.setdefault(path, FileReport(path, "", ()))
            told = report if path == report.path else known
            order[path] = told._replace(texts={**known.texts, **report.texts} if known.texts else report.texts)
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


def with_waivers(told: Gathered, strict: bool) -> Sequence[FileReport]:
    """With what is wrong with the suppressions in settings, now that every file was looked at."""
    if not told.waivers:
        return told.reports
    found: dict[str, list[Finding]] = {}
    for item in waiver_findings(told.waivers, told.used, today(), strict):
        place = item.location._replace(path=_shown(item.location.path))
        found.setdefault(place.path, []).append(item._replace(location=place))
    more = tuple(FileReport(path, "", tuple(items)) for path, items in sorted(found.items()))
    return kept(chain(told.reports, more), len(told.reports)) if more else told.reports


def _shown(path: str) -> str:
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative


class Accepted(NamedTuple):
    """Reports without what the baseline accepts, and what to say of the baseline."""

    reports: Sequence[FileReport]
    notes: tuple[str, ...] = ()


def without_baseline(reports: Sequence[FileReport], path: str) -> Accepted:
    """Raises UsageError where the baseline cannot be read."""
    left = _near(read_baseline(path), path)
    if not left:
        return Accepted(reports)
    gone: dict[baseline.Key, int] = {}

    def compared() -> Iterator[FileReport]:
        for report in reports:
            known = left.get(report.path.replace("\\", "/"), {})
            found = baseline.compare(report.findings, known, [report.path])
            for item in found.accepted:
                known[baseline.key_of(item)] -= 1
            gone.update(found.gone)
            yield report._replace(findings=found.new, baselined=len(found.accepted))

    told = kept(compared(), len(reports))
    note = baseline.advice(gone)
    return Accepted(told, (note,) if note else ())


def write_baseline(reports: Iterable[FileReport], path: str) -> int:
    """Accepts every finding of `reports`; what the file says of other files stays. Returns the number accepted."""
    seen = {_from(path, report.path) for report in reports}
    counts = {key: number for key, number in read_baseline(path).items() if key[0] not in seen}
    found = baseline.count(item for report in reports for item in report.findings)
    counts |= {_far(key, path): number for key, number in found.items()}
    to_file((baseline.write(counts),), path)
    return sum(found.values())


def read_baseline(path: str) -> Mapping[baseline.Key, int]:
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as stream:
            return baseline.read(stream.read(), path)
    except (OSError, baseline.BaselineError) as error:
        raise UsageError(f"baseline: {error}") from None


def _near(counts: Mapping[baseline.Key, int], path: str) -> dict[str, dict[baseline.Key, int]]:
    """Counts, file by file, by the names that files have in this run; a baseline counts from its own folder."""
    folder = os.path.dirname(os.path.abspath(path))
    names = {name: _shown(os.path.join(folder, name)) for name in {key[0] for key in counts}}
    found: dict[str, dict[baseline.Key, int]] = {}
    for (name, rule, key), number in counts.items():
        found.setdefault(names[name], {})[names[name], rule, key] = number
    return found


def _far(key: baseline.Key, path: str) -> baseline.Key:
    return (_from(path, key[0]), *key[1:])


def _from(baseline_path: str, path: str) -> str:
    folder = os.path.dirname(os.path.abspath(baseline_path))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
