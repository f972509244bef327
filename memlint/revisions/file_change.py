"""Compares one config before and after: its runs side by side, new and resolved findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memlint.findings import Finding
from memlint.report.comparison.model import FileDiff, RunDiff
from memlint.report.model import RunReport
from memlint.revisions.run_change import changes
from memlint.revisions.side import ConfigOnSide
from memlint.run import Run
from memlint.suppressions import baseline

_Pair = tuple[Run, RunReport]


def file_diff(
    name: str, old_name: str, old: ConfigOnSide | None, new: ConfigOnSide | None, touched: set[str]
) -> FileDiff | None:
    """The comparison of one config; None if neither side is a config or has findings.

    `name`, `old_name`: its path on the new and on the old side. `touched`: the paths of all changed files.
    """
    sides = [side.linted.report for side in (old, new) if side is not None]
    if not any(side.format or side.findings for side in sides):
        return None
    resolved, new_findings, unchanged = _match(_findings(old), _findings(new), {old_name: name})
    status = _status(name, old_name, old, new, touched)
    read = (old.read if old else frozenset()) | (new.read if new else frozenset())
    return FileDiff(
        path=name,
        status=status,
        old_path=old_name if old_name != name else "",
        via=tuple(sorted((read & touched) - {name, old_name})) if old and new else (),
        runs=_runs(old, new),
        new=new_findings,
        resolved=resolved,
        unchanged=unchanged,
        texts=new.linted.report.texts if new else {},
    )


def _findings(side: ConfigOnSide | None) -> tuple[Finding, ...]:
    return side.linted.report.findings if side else ()


def _status(name: str, old_name: str, old: ConfigOnSide | None, new: ConfigOnSide | None, touched: set[str]) -> str:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if old_name != name:
        return "renamed"
    return "changed" if name in touched else "affected"


def _match(
    before: Sequence[Finding], after: Sequence[Finding], renamed: Mapping[str, str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], int]:
    """(resolved, new, number on both sides). Two findings are equal if file, rule and key are; the line may differ."""

    def renamed_finding(item: Finding) -> Finding:
        path = renamed.get(item.location.path, item.location.path)
        return item._replace(location=item.location._replace(path=path))

    old = [renamed_finding(item) for item in before]
    appeared = baseline.compare(after, baseline.count(old))
    disappeared = baseline.compare(old, baseline.count(after))
    return disappeared.new, appeared.new, len(appeared.accepted)


def _runs(old: ConfigOnSide | None, new: ConfigOnSide | None) -> tuple[RunDiff, ...]:
    before, after = _pairs(old), _pairs(new)
    made: list[RunDiff] = []
    for index in range(max(len(before), len(after))):
        earlier = before[index] if index < len(before) else None
        later = after[index] if index < len(after) else None
        changed = changes(earlier[0], later[0]) if earlier and later else ()
        made.append(RunDiff(earlier[1] if earlier else None, later[1] if later else None, changed))
    return tuple(made)


def _pairs(side: ConfigOnSide | None) -> list[_Pair]:
    if side is None:
        return []
    runs: list[Any] = [run for analysis in side.analysed.analyses for run in analysis.runs]
    return list(zip(runs, side.linted.report.runs))
