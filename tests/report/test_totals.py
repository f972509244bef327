"""What the last lines of a report count."""

from __future__ import annotations

from typing import Any

from memlint.findings import Finding, Location
from memlint.memory.values import Estimate, UnknownField
from memlint.report.model import PART, FileReport, HardwareFacts, ModelFacts, Report, RunReport, verdict_of
from memlint.report.totals import MOST_NOT_ESTIMATED, totals

UNKNOWN = Estimate((), "", *[None] * 6, "unknown", unknown=(UnknownField("model", "not in the catalog"),))
NO_CARD = HardwareFacts(None, None, None)


def run(path: str, purpose: str = "train", **fields: Any) -> RunReport:
    """A run without a figure."""
    return RunReport(
        path, "trainer", fields.pop("related", ()), ModelFacts(None, ""), NO_CARD, UNKNOWN, purpose, **fields
    )


def report(*runs: RunReport) -> Report:
    return Report([FileReport(one.path, one.format, (), (one,)) for one in runs])


def test_a_file_of_an_engine_counts_as_a_run_only_if_no_run_names_it() -> None:
    alone = totals(report(run("a.yaml"), run("ds.json", PART)))
    named = totals(report(run("a.yaml", related=("ds.json",)), run("ds.json", PART)))

    assert (alone.verdicts["unknown"], alone.only_run) == (2, None)
    assert (named.verdicts["unknown"], named.only_run) == (1, run("a.yaml", related=("ds.json",)))


def test_a_run_that_will_not_start_has_no_verdict() -> None:
    count = totals(report(run("a.yaml", stopped_by=("CFG001",)), run("ds.json", PART, stopped_by=("CFG001",))))

    assert (count.stopped, sum(count.verdicts.values())) == (2, 0)


def test_of_many_runs_without_a_figure_the_first_are_kept() -> None:
    count = totals(report(*(run(f"{number}.yaml") for number in range(8))))

    assert [one.path for one in count.not_estimated] == [f"{number}.yaml" for number in range(MOST_NOT_ESTIMATED)]
    assert count.more_not_estimated == 8 - MOST_NOT_ESTIMATED


def test_findings_count_by_severity() -> None:
    place = Location("a.yaml", 1, 1, 1, 2)
    found = (Finding("CFG001", "config/unknown-key", "error", "x", place),) * 2

    assert totals(Report([FileReport("a.yaml", "", found)])).by_severity == {"error": 2, "warning": 0, "info": 0}


def test_a_run_that_will_not_start_is_not_out_of_memory_either() -> None:
    over = run("a.yaml", stopped_by=("CFG001",))
    over = over._replace(estimate=over.estimate._replace(verdict="out_of_memory"))
    count = totals(report(over))

    assert (count.stopped, sum(count.verdicts.values())) == (1, 0)
    assert verdict_of(over) == "will not start (CFG001)"
