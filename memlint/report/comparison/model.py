"""The result of `memlint diff` as values: runs before and after, why they differ, new and resolved findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.memory.values import Estimate
from memlint.report.model import RunReport

RANK = {"fits": 0, "tight": 1, "out_of_memory": 2}


class ValueChange(NamedTuple):
    """One key that differs. `own_effect`: bytes that it alone adds to the peak of the old run; None: unknown."""

    name: str
    before: str
    after: str
    place: str
    own_effect: int | None = None


class RunDiff(NamedTuple):
    """One run before and after; None where it does not exist."""

    before: RunReport | None
    after: RunReport | None
    changes: tuple[ValueChange, ...] = ()

    @property
    def delta(self) -> int | None:
        """The change of the peak on the GPU in bytes; None if either side has no estimate."""
        before, after = _device(self.before), _device(self.after)
        return None if before is None or after is None else after - before

    @property
    def is_unknown(self) -> bool:
        """Whether a run changed and cannot be estimated; reported, as silence would look like "no change"."""
        sides = (self.before, self.after)
        return bool(self.changes) and all(
            side is not None and side.estimate.device_bytes is None and side.purpose != "partial" for side in sides
        )

    @property
    def trend(self) -> str:
        """Either "worse", "better" or "same", by the verdict; a new run that does not fit is worse."""
        before = RANK.get(self.before.estimate.verdict) if self.before else 0
        after = RANK.get(self.after.estimate.verdict) if self.after else None
        if before is None or after is None or before == after:
            return "same"
        return "worse" if after > before else "better"


class FileDiff(NamedTuple):
    """One config before and after.

    `status`: added, removed, renamed, changed, or affected: another file that it reads (`via`) changed.
    """

    path: str
    status: str
    old_path: str = ""
    via: tuple[str, ...] = ()
    runs: tuple[RunDiff, ...] = ()
    new: tuple[Finding, ...] = ()
    resolved: tuple[Finding, ...] = ()
    unchanged: int = 0  # findings on both sides
    texts: Mapping[str, str] = {}

    @property
    def is_regression(self) -> bool:
        """Whether a verdict gets worse or there is a new error."""
        return any(run.trend == "worse" for run in self.runs) or any(item.severity == "error" for item in self.new)

    @property
    def is_worth_reporting(self) -> bool:
        """Whether findings, a peak or a verdict changed, or the config is new or gone."""
        return bool(
            self.new or self.resolved or any(run.delta or run.trend != "same" or run.is_unknown for run in self.runs)
        ) or (self.status in ("added", "removed"))


class DiffReport(NamedTuple):
    """All compared files, most important first. `base`, `head`: the two sides by the names that the user gave."""

    base: str
    head: str
    files: tuple[FileDiff, ...]
    version: str = ""
    notes: tuple[str, ...] = ()
    quiet: int = 0  # configs that changed with the same peak, verdict and findings


def _device(run: RunReport | None) -> int | None:
    return run.estimate.device_bytes if run else None


def components(estimate: Estimate) -> Mapping[str, int]:
    """The components of the phase with the peak."""
    return next((phase.components for phase in estimate.phases if phase.name == estimate.peak_phase), {})


def moved(run: RunDiff) -> Iterator[tuple[str, int, int]]:
    """(name, bytes before, bytes after) of the components at the peak that differ, largest change first."""
    if run.before is None or run.after is None:
        return
    before, after = components(run.before.estimate), components(run.after.estimate)
    rows = [(name, before.get(name, 0), after.get(name, 0)) for name in dict.fromkeys([*before, *after])]
    yield from sorted((row for row in rows if row[1] != row[2]), key=lambda row: -abs(row[2] - row[1]))


def importance(file: FileDiff) -> tuple[bool, int, str]:
    """A sort key: regressions first, then the largest growth of a peak."""
    return not file.is_regression, -max((run.delta or 0 for run in file.runs), default=0), file.path
