"""The results of the library's functions: frozen values with `to_dict()` (the command line's JSON), text and HTML."""

from __future__ import annotations

import json as standard_json
import os
from collections.abc import Mapping
from typing import Any

import memlint.report.json as json
import memlint.report.plans as plan_table
import memlint.report.table as memory_table
import memlint.report.text as text
from memlint._record import NamedTuple
from memlint.errors import Error
from memlint.findings import SEVERITIES, Finding
from memlint.fixes.apply import AppliedFix
from memlint.fixes.edits.unified_patch import patch
from memlint.fixes.write import Write, WriteRefused, write_all
from memlint.memory.values import Phase, UnknownField
from memlint.report import card_figures, notebook
from memlint.report.model import Report, RunReport, findings, verdict_of
from memlint.report.terminal import PLAIN
from memlint.run import Run


class RunEstimate(NamedTuple):
    """The memory of one run on one GPU. Bytes are None if something that they depend on is unknown: see `unknown`.

    `run`: the run as memlint understood it. `report`: the values that the table shows.
    """

    run: Run
    report: RunReport

    @property
    def path(self) -> str:
        return self.report.path

    @property
    def verdict(self) -> str:
        """fits, tight (the interval crosses the card), out_of_memory or unknown."""
        return self.report.estimate.verdict

    @property
    def fits(self) -> bool | None:
        """Whether the run fits its card, even at the high end of the interval; None if that is unknown."""
        return None if self.verdict == "unknown" else self.verdict == "fits"

    @property
    def verdict_words(self) -> str:
        """The verdict as reports say it: "barely fits", "will not start (...)"."""
        return verdict_of(self.report)

    @property
    def allocated_bytes(self) -> int | None:
        """The peak that `torch.cuda.max_memory_allocated()` shows, in bytes."""
        return self.report.estimate.allocated_bytes

    @property
    def reserved_bytes(self) -> int | None:
        """The peak that `torch.cuda.max_memory_reserved()` shows, in bytes."""
        return self.report.estimate.reserved_bytes

    @property
    def device_bytes(self) -> int | None:
        """The peak that nvidia-smi shows, in bytes."""
        return self.report.estimate.device_bytes

    @property
    def gib(self) -> float | None:
        """The peak that nvidia-smi shows, in GiB."""
        return None if self.device_bytes is None else self.device_bytes / 2**30

    @property
    def components(self) -> Mapping[str, int]:
        """The bytes of the peak phase by component (weights, gradients, activations, ...); empty if unknown."""
        return next((phase.components for phase in self.phases if phase.name == self.peak_phase), {})

    @property
    def device_low_bytes(self) -> int | None:
        return self.report.estimate.device_low_bytes

    @property
    def device_high_bytes(self) -> int | None:
        return self.report.estimate.device_high_bytes

    @property
    def budget_bytes(self) -> int | None:
        """The bytes of the card that the run may use; None if no card is named."""
        return self.report.estimate.budget_bytes or None

    @property
    def peak_phase(self) -> str:
        return self.report.estimate.peak_phase

    @property
    def phases(self) -> tuple[Phase, ...]:
        return self.report.estimate.phases

    @property
    def parameters(self) -> int | None:
        return self.report.estimate.parameters

    @property
    def trainable_parameters(self) -> int | None:
        return self.report.estimate.trainable_parameters

    @property
    def fits_on(self) -> tuple[str, ...]:
        """The smallest common cards that hold the run."""
        return self.report.estimate.fits_on

    @property
    def unknown(self) -> tuple[UnknownField, ...]:
        """The values that are missing for an estimate, each with the reason and what to do about it."""
        return self.report.estimate.unknown

    def to_dict(self) -> dict[str, Any]:
        """An item of `runs` in `memlint estimate --format json`."""
        return json.run(self.report)

    def __repr__(self) -> str:
        return f"<memlint.Estimate {self.path!r}: {self.verdict_words}, {card_figures.peak(self.report.estimate)}>"

    def __str__(self) -> str:
        return "\n".join(memory_table.run_lines(self.report, PLAIN))

    def _repr_html_(self) -> str:
        return notebook.estimate_html(self.report)


class CheckResult(NamedTuple):
    """The result of `memlint.check`. `report`: files with their findings and runs, the source of every output."""

    report: Report
    estimates: tuple[RunEstimate, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        return findings(self.report)

    @property
    def runs(self) -> tuple[RunEstimate, ...]:
        """The estimate of every run that the findings are about."""
        return self.estimates

    def worst(self) -> str:
        """The highest severity among the findings: error, warning, info or ""."""
        found = {item.severity for item in self.findings}
        return next((severity for severity in reversed(SEVERITIES) if severity in found), "")

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `memlint check --format json`, as plain values."""
        plain: dict[str, Any] = standard_json.loads(json.render(self.report))
        return plain

    def __repr__(self) -> str:
        return f"<memlint.CheckResult: {len(self.findings)} findings, {len(self.runs)} runs>"

    def __str__(self) -> str:
        return text.render(self.report).rstrip("\n")

    def _repr_html_(self) -> str:
        return notebook.check_html(self.report)


class PlanResult(NamedTuple):
    """Ways to make each run fit. `runs`: one row per run, as `memlint plan --format json` prints them."""

    runs: tuple[Mapping[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `memlint plan --format json`, as plain values."""
        return {"schema_version": 1, "runs": [dict(row) for row in self.runs]}

    def __str__(self) -> str:
        return plan_table.render([dict(row) for row in self.runs])

    def _repr_html_(self) -> str:
        return notebook.preformatted(str(self))


class FixResult(NamedTuple):
    """Files with fixes applied, in memory. `contents`: the changed files by path; `before`: what they held.

    `applied`: findings and their fixes. `not_applied`: findings that have fixes, and why none was taken.
    """

    contents: Mapping[str, str]
    before: Mapping[str, str]
    applied: tuple[AppliedFix, ...] = ()
    not_applied: tuple[tuple[Finding, str], ...] = ()
    originals: Mapping[str, bytes] = {}
    changed: Mapping[str, bytes] = {}
    on_disk: bool = True

    def diff(self) -> str:
        """The changes as a patch that `git apply` takes."""
        patches = (patch(path.replace(os.sep, "/"), self.originals[path], new) for path, new in self.changed.items())
        return b"".join(patches).decode("utf-8", "replace")

    def write(self) -> None:
        """Writes the changed files, all or none. Raises Error, also if a file has changed since it was read."""
        if not self.on_disk:
            raise Error("these files are in memory: take `contents`")
        writes = [Write(path, self.originals[path], new) for path, new in self.changed.items()]
        roots = {os.getcwd(), *(os.path.dirname(os.path.abspath(path)) for path in self.changed)}
        try:
            write_all(writes, roots)
        except WriteRefused as error:
            raise Error(str(error)) from None

    def to_dict(self) -> dict[str, Any]:
        """Plain values: the changed texts, what was applied, what was not and why."""
        return {
            "contents": dict(self.contents),
            "applied": [{"finding": json.finding(item.finding), "fix": json.fix(item.fix)} for item in self.applied],
            "not_applied": [{"finding": json.finding(item), "reason": reason} for item, reason in self.not_applied],
        }

    def __repr__(self) -> str:
        return f"<memlint.FixResult: {len(self.applied)} fixes in {', '.join(self.contents) or 'no file'}>"

    def __str__(self) -> str:
        return self.diff() or "nothing to fix"

    def _repr_html_(self) -> str:
        return notebook.preformatted(str(self))
