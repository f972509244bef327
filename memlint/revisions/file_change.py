"""One config before and after: its runs side by side, the findings that come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memlint.findings import Finding
from memlint.report.comparison.model import FileDiff, RunDiff
from memlint.report.model import RunReport
from memlint.revisions.run_change import changes
from memlint.revisions.side import Seen
from memlint.run import Run
from memlint.suppressions import baseline

_Pair = tuple[Run, RunReport]


def file_diff(name: str, was: str, old: Seen | None, new: Seen | None, touched: set[str]) -> FileDiff | None:
    """None where neither side is a config with something to say. `was`: the name on the old side."""
    sides = [side.linted.report for side in (old, new) if side is not None]
    if not any(side.format or side.findings for side in sides):
        return None
    gone, come, kept = _matched(_findings(old), _findings(new), {was: name})
    status = _status(name, was, old, new, touched)
    read = (old.read if old else frozenset()) | (new.read if new else frozenset())
    return FileDiff(
        path=name,
        status=status,
        old_path=was if was != name else "",
        via=tuple(sorted((read & touched) - {name, was})) if old and new else (),
        runs=_runs(old, new),
        new=come,
        resolved=gone,
        unchanged=kept,
        texts=new.linted.report.texts if new else {},
    )


def _findings(side: Seen | None) -> tuple[Finding, ...]:
    return side.linted.report.findings if side else ()


def _status(name: str, was: str, old: Seen | None, new: Seen | None, touched: set[str]) -> str:
    if old is None or new is None:
        return "added" if old is None else "removed"
    if was != name:
        return "renamed"
    return "changed" if name in touched else "affected"


def _matched(
    before: Sequence[Finding], after: Sequence[Finding], renamed: Mapping[str, str]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], int]:
    """(resolved, new, number on both sides): findings are the same by file, rule and key, wherever they moved."""

    def moved(item: Finding) -> Finding:
        path = renamed.get(item.location.path, item.location.path)
        return item._replace(location=item.location._replace(path=path))

    old = [moved(item) for item in before]
    come = baseline.compare(after, baseline.count(old))
    gone = baseline.compare(old, baseline.count(after))
    return gone.new, come.new, len(come.accepted)


def _runs(old: Seen | None, new: Seen | None) -> tuple[RunDiff, ...]:
    before, after = _pairs(old), _pairs(new)
    made: list[RunDiff] = []
    for index in range(max(len(before), len(after))):
        was = before[index] if index < len(before) else None
        now = after[index] if index < len(after) else None
        why = changes(was[0], now[0]) if was and now else ()
        made.append(RunDiff(was[1] if was else None, now[1] if now else None, why))
    return tuple(made)


def _pairs(side: Seen | None) -> list[_Pair]:
    if side is None:
        return []
    runs: list[Any] = [run for analysis in side.analysed.analyses for run in analysis.runs]
    return list(zip(runs, side.linted.report.runs))
