"""Reports of single files to the report of a run: each finding once, under the file it points to, less the baseline."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from memlint._record import NamedTuple
from memlint.checks import baseline
from memlint.checks.suppressions import waiver_findings
from memlint.commands import CommandError
from memlint.commands.hide import today
from memlint.commands.run_files import Linted
from memlint.findings import Finding
from memlint.report.model import FileReport, location_key

DEFAULT_BASELINE = "memlint-baseline.json"


def merged(reports: Sequence[FileReport]) -> tuple[FileReport, ...]:
    """The same findings, each once and under the file that it points to.

    A DeepSpeed JSON is linted alone and through every YAML that names it: what both say is said once, in the words
    that have more to show. A file that only took part gets a report behind the one that led to it.
    """
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


def with_waivers(reports: tuple[FileReport, ...], linted: Iterable[Linted], strict: bool) -> tuple[FileReport, ...]:
    """With what is wrong with the suppressions in settings, now that every file was looked at."""
    waivers = [waiver for item in linted for waiver in item.waivers]
    if not waivers:
        return reports
    used = frozenset(waiver for item in linted for waiver in item.used)
    found: dict[str, list[Finding]] = {}
    for item in waiver_findings(waivers, used, today(), strict):
        place = item.location._replace(path=_shown(item.location.path))
        found.setdefault(place.path, []).append(item._replace(location=place))
    return (*reports, *(FileReport(path, "", tuple(items)) for path, items in sorted(found.items())))


def _shown(path: str) -> str:
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative


class Accepted(NamedTuple):
    """Reports without what the baseline accepts, and what to say of the baseline."""

    reports: tuple[FileReport, ...]
    notes: tuple[str, ...] = ()


def without_baseline(reports: tuple[FileReport, ...], path: str) -> Accepted:
    """Raises CommandError where the baseline cannot be read."""
    told, gone = [], 0
    left = dict(read_baseline(path))
    if not left:
        return Accepted(reports)
    for report in reports:
        compared = baseline.compare(report.findings, _near(left, path), [report.path])
        for item in compared.accepted:
            left[_far(baseline.key_of(item), path)] -= 1
        gone += sum(compared.gone.values())
        told.append(report._replace(findings=compared.new, baselined=len(compared.accepted)))
    note = baseline.advice({("", "", ""): gone}) if gone else ""
    return Accepted(tuple(told), (note,) if note else ())


def write_baseline(reports: Iterable[FileReport], path: str) -> int:
    """Accepts every finding of `reports`; what the file says of other files stays. Returns the number accepted."""
    reports = tuple(reports)
    seen = {_from(path, report.path) for report in reports}
    counts = {key: number for key, number in read_baseline(path).items() if key[0] not in seen}
    found = baseline.count(item for report in reports for item in report.findings)
    counts |= {_far(key, path): number for key, number in found.items()}
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(baseline.write(counts))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
    return sum(found.values())


def read_baseline(path: str) -> Mapping[baseline.Key, int]:
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as stream:
            return baseline.read(stream.read(), path)
    except (OSError, baseline.BaselineError) as error:
        raise CommandError(f"baseline: {error}") from None


def _near(counts: Mapping[baseline.Key, int], path: str) -> dict[baseline.Key, int]:
    """Counts by the names that files have in this run; a baseline counts from its own folder."""
    folder = os.path.dirname(os.path.abspath(path))
    return {(_shown(os.path.join(folder, key[0])), *key[1:]): number for key, number in counts.items() if number}


def _far(key: baseline.Key, path: str) -> baseline.Key:
    return (_from(path, key[0]), *key[1:])


def _from(baseline_path: str, path: str) -> str:
    folder = os.path.dirname(os.path.abspath(baseline_path))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
