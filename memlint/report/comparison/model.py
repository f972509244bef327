"""What a branch changes, as values: the runs before and after, why they differ, findings that come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.memory.values import Estimate
from memlint.report.model import RunReport

RANK = {"fits": 0, "tight": 1, "out_of_memory": 2}


class ValueChange(NamedTuple):
    """One setting that differs. `alone`: bytes that it alone adds to the peak of the run before; None: not known."""

    name: str
    before: str
    after: str
    place: str
    alone: int | None = None


class RunDiff(NamedTuple):
    before: RunReport | None
    after: RunReport | None
    changes: tuple[ValueChange, ...] = ()

    @property
    def delta(self) -> int | None:
        """Bytes that the peak on the card grows by."""
        before, after = _device(self.before), _device(self.after)
        return None if before is None or after is None else after - before

    @property
    def is_unknown(self) -> bool:
        """A run that changes and that nobody can estimate: worth saying, as silence would look like "no change"."""
        sides = (self.before, self.after)
        return bool(self.changes) and all(
            side is not None and side.estimate.device_bytes is None and side.purpose != "partial" for side in sides
        )

    @property
    def trend(self) -> str:
        """worse, better or same, by the verdict; a new run that does not fit is worse."""
        before = RANK.get(self.before.estimate.verdict) if self.before else 0
        after = RANK.get(self.after.estimate.verdict) if self.after else None
        if before is None or after is None or before == after:
            return "same"
        return "worse" if after > before else "better"


class FileDiff(NamedTuple):
    """`status`: added, removed, renamed, changed, affected (another file changed: `via`)."""

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
        """A verdict that gets worse, or an error that was not there."""
        return any(run.trend == "worse" for run in self.runs) or any(item.severity == "error" for item in self.new)

    @property
    def says_something(self) -> bool:
        return bool(
            self.new or self.resolved or any(run.delta or run.trend != "same" or run.is_unknown for run in self.runs)
        ) or (self.status in ("added", "removed"))


class DiffReport(NamedTuple):
    """`files` that a reader should see first come first. `base` and `head` are what people call them."""

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
    """Components at the peak that differ, the one that moved most first: (name, before, after)."""
    if run.before is None or run.after is None:
        return
    before, after = components(run.before.estimate), components(run.after.estimate)
    rows = [(name, before.get(name, 0), after.get(name, 0)) for name in dict.fromkeys([*before, *after])]
    yield from sorted((row for row in rows if row[1] != row[2]), key=lambda row: -abs(row[2] - row[1]))


def importance(file: FileDiff) -> tuple[bool, int, str]:
    """Regressions first, then what grew most."""
    return not file.is_regression, -max((run.delta or 0 for run in file.runs), default=0), file.path
