"""Findings that a team accepted: a baseline file read, held against reports, and made anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import memlint.suppressions.baseline as baseline
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.lint.merge_reports import name_from_here
from memlint.lint.packed_reports import reread
from memlint.report.model import FileReport

DEFAULT_BASELINE = "memlint-baseline.json"


class NewFindings(NamedTuple):
    """Reports without what the baseline accepts, and what to say of the baseline."""

    reports: Sequence[FileReport]
    notes: tuple[str, ...] = ()


class NewBaseline(NamedTuple):
    """What the baseline file is to say, and how many findings of this run it accepts."""

    text: str
    accepted: int


def without_baseline(reports: Sequence[FileReport], path: str) -> NewFindings:
    """Raises UsageError where the baseline cannot be read."""
    left = _by_file(read_baseline(path), path)
    if not left:
        return NewFindings(reports)
    gone: dict[baseline.Key, int] = {}
    told = reread(_compared(reports, left, gone), len(reports))
    note = baseline.advice(gone)
    return NewFindings(told, (note,) if note else ())


def _compared(
    reports: Iterable[FileReport], left: Mapping[str, dict[baseline.Key, int]], gone: dict[baseline.Key, int]
) -> Iterator[FileReport]:
    """Reports without what is accepted; takes that from `left`, and puts what is no longer found into `gone`."""
    for report in reports:
        known = left.get(report.path.replace("\\", "/"), {})
        found = baseline.compare(report.findings, known, [report.path])
        for item in found.accepted:
            known[baseline.key_of(item)] -= 1
        gone.update(found.gone)
        yield report._replace(findings=found.new, baselined=len(found.accepted))


def new_baseline(reports: Iterable[FileReport], path: str) -> NewBaseline:
    """Accepts every finding of `reports`; what the file at `path` says of other files stays. Raises UsageError."""
    seen = {_from_baseline(path, report.path) for report in reports}
    counts = {key: number for key, number in read_baseline(path).items() if key[0] not in seen}
    found = baseline.count(item for report in reports for item in report.findings)
    counts |= {(_from_baseline(path, key[0]), *key[1:]): number for key, number in found.items()}
    return NewBaseline(baseline.write(counts), sum(found.values()))


def read_baseline(path: str) -> Mapping[baseline.Key, int]:
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as stream:
            return baseline.read(stream.read(), path)
    except (OSError, baseline.BaselineError) as error:
        raise UsageError(f"baseline: {error}") from None


def _by_file(counts: Mapping[baseline.Key, int], path: str) -> dict[str, dict[baseline.Key, int]]:
    """Counts, file by file, by the names that files have in this run; a baseline counts from its own folder."""
    folder = os.path.dirname(os.path.abspath(path))
    names = {name: name_from_here(os.path.join(folder, name)) for name in {key[0] for key in counts}}
    found: dict[str, dict[baseline.Key, int]] = {}
    for (name, rule, key), number in counts.items():
        found.setdefault(names[name], {})[names[name], rule, key] = number
    return found


def _from_baseline(baseline_path: str, path: str) -> str:
    """The name of a file of this run, counted from the baseline's folder."""
    folder = os.path.dirname(os.path.abspath(baseline_path))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
