"""Applies a baseline file (findings that a team accepted) to reports, and writes a new one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

import memlint.suppressions.baseline as baseline
from memlint._record import NamedTuple
from memlint.errors import UsageError
from memlint.lint.many.merge_reports import as_sequence, name_from_here
from memlint.report.model import FileReport

DEFAULT_BASELINE = "memlint-baseline.json"


class NewFindings(NamedTuple):
    """Reports without the findings that the baseline accepts, and notes about the baseline."""

    reports: Sequence[FileReport]
    notes: tuple[str, ...] = ()


class NewBaseline(NamedTuple):
    """The text of a baseline file and how many findings of this run it accepts."""

    text: str
    accepted: int


def without_baseline(reports: Sequence[FileReport], path: str) -> NewFindings:
    """Removes the findings that the baseline at `path` accepts. Raises UsageError if it cannot be read."""
    if not os.path.exists(path):
        missing = f"{name_from_here(path)} is not there, so no finding is accepted; --write-baseline writes it"
        return NewFindings(reports, (f"baseline: {missing}",))
    remaining = _by_file(read_baseline(path), path)
    if not remaining:
        return NewFindings(reports)
    gone: dict[baseline.Key, int] = {}
    filtered = as_sequence(_without_accepted(reports, remaining, gone), len(reports))
    note = baseline.advice(gone)
    return NewFindings(filtered, (note,) if note else ())


def _without_accepted(
    reports: Iterable[FileReport], remaining: Mapping[str, dict[baseline.Key, int]], gone: dict[baseline.Key, int]
) -> Iterator[FileReport]:
    """The reports without the accepted findings, as an iterator. Consuming it changes both dictionaries.

    The accepted findings are subtracted from `remaining`; those that a report no longer has are added to `gone`.
    """
    for report in reports:
        accepted = remaining.get(report.path.replace("\\", "/"), {})
        found = baseline.compare(report.findings, accepted, [report.path])
        for item in found.accepted:
            accepted[baseline.key_of(item)] -= 1
        gone.update(found.gone)
        yield report._replace(findings=found.new, baselined=len(found.accepted))


def new_baseline(reports: Iterable[FileReport], path: str) -> NewBaseline:
    """A baseline that accepts every finding of `reports`.

    Entries of the file at `path` about other files stay. Raises UsageError if that file cannot be read.
    """
    seen = {_from_baseline(path, report.path) for report in reports}
    counts = {key: number for key, number in read_baseline(path).items() if key[0] not in seen}
    found = baseline.count(item for report in reports for item in report.findings)
    counts |= {(_from_baseline(path, key[0]), *key[1:]): number for key, number in found.items()}
    return NewBaseline(baseline.write(counts), sum(found.values()))


def read_baseline(path: str) -> Mapping[baseline.Key, int]:
    """The counts in the baseline at `path`; none if there is no file. Raises UsageError if it cannot be read."""
    if not os.path.exists(path):
        return {}
    try:
        with open(path, "rb") as stream:
            return baseline.read(stream.read(), path)
    except (OSError, baseline.BaselineError) as error:
        raise UsageError(f"baseline: {error}") from None


def _by_file(counts: Mapping[baseline.Key, int], path: str) -> dict[str, dict[baseline.Key, int]]:
    """The counts by file, with paths relative to the working directory (in a baseline: relative to its folder)."""
    folder = os.path.dirname(os.path.abspath(path))
    names = {name: name_from_here(os.path.join(folder, name)) for name in {key[0] for key in counts}}
    found: dict[str, dict[baseline.Key, int]] = {}
    for (name, rule, key), number in counts.items():
        found.setdefault(names[name], {})[names[name], rule, key] = number
    return found


def _from_baseline(baseline_path: str, path: str) -> str:
    """The path of a linted file relative to the baseline's folder."""
    folder = os.path.dirname(os.path.abspath(baseline_path))
    return os.path.relpath(os.path.abspath(path), folder).replace(os.sep, "/")
