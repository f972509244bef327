"""Two small tables for whole repositories: the runs that matter, worst first, and findings by rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import memlint.report.card_figures as card_figures
from memlint.card_bytes import CardBytes
from memlint.findings import written_fix
from memlint.memory.values import ReadingEstimate
from memlint.report.model import Report, RunReport, each_finding, verdict_of, verdict_role, will_not_start
from memlint.report.terminal import Style, one_line
from memlint.report.units import gib

WORST_FIRST = ("out_of_memory", "tight", "fits", "unknown")
SHOWN = 20

Cells = tuple[str, str, str, str]  # path, card, peak, interval


def runs_table(report: Report, style: Style) -> Iterator[str]:
    """One row per estimated run, worst first, or for several of a file with equal figures; those beyond SHOWN runs are
    only counted."""
    ranking, number = ranked((run for file in report.files for run in file.runs), SHOWN)
    if number < 2:
        return
    alike: dict[tuple[Cells, str], list[RunReport]] = {}
    for run in ranking:
        alike.setdefault((_cells(run), verdict_of(run)), []).append(run)
    shown = [runs[0] for runs in alike.values()]
    cells = [_with_count(row, len(runs)) for (row, _), runs in alike.items()]
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    words = max(len(verdict_of(run)) for run in shown)
    stacked = bool(style.width) and 2 + sum(widths) + len("   GiB    ") + words + 2 > style.width
    for run, row in zip(shown, cells):
        path, card, peak, interval = (text.ljust(width) for text, width in zip(row, widths))
        word = style.paint(verdict_of(run), verdict_role(run))
        if stacked:  # the path on a line of its own, above the other cells
            yield f"  {row[0]}"
            yield f"    {word}: {row[2].strip()} GiB {row[3]}, {row[1]}"
        else:
            yield f"  {path}  {card}  {peak} GiB  {interval}  {word}".rstrip()
    if number > len(ranking):
        yield style.paint(f"  and {number - len(ranking)} more with less to say (--format html shows all)", "dim")


def ranked(runs: Iterable[RunReport], most: int) -> tuple[list[RunReport], int]:
    """(the first `most` runs with a known peak, the number of all such runs).

    They are ordered by verdict, worst first, then by the share of the card that they take.
    """
    number = 0
    first: list[RunReport] = []
    for run in runs:
        if run.estimate.device_bytes is not None:
            number += 1
            first.append(run)
            if len(first) >= 8 * most:
                first = sorted(first, key=_rank)[:most]
    return sorted(first, key=_rank)[:most], number


def _rank(run: RunReport) -> tuple[bool, int, float, str]:
    return not will_not_start(run), WORST_FIRST.index(run.estimate.verdict), -_share(run), run.path


def _share(run: RunReport) -> float:
    budget = run.estimate.budget_bytes or run.hardware.usable_bytes or 0
    return (run.estimate.device_high_bytes or 0) / budget if budget else 0.0


def _cells(run: RunReport) -> Cells:
    found = run.estimate.on_card
    assert found is not None  # `ranked` leaves out what was not estimated
    budget = found.usable or run.hardware.usable_bytes or 0
    card = run.hardware.cards or "no GPU named"
    if run.estimate.readings and run.estimate.verdict == "unknown":
        found = _spanning_readings(found, run.estimate.readings)
    interval = f"({card_figures.interval(found)}{card_figures.of_card(budget)})"
    return one_line(run.path), card, gib(found.figure).rjust(6), interval


def _with_count(cells: Cells, runs: int) -> Cells:
    path, card, peak, interval = cells
    return (f"{path} ({runs} runs)" if runs > 1 else path, card, peak, interval)


def _spanning_readings(found: CardBytes, readings: Iterable[ReadingEstimate]) -> CardBytes:
    """The figure with an interval that spans all readings, because a row has no room for each reading."""
    known = [one for one in readings if one.device_low_bytes is not None and one.device_high_bytes is not None]
    low = min((one.device_low_bytes or 0 for one in known), default=found.low)
    high = max((one.device_high_bytes or 0 for one in known), default=found.high)
    return found._replace(low=low, high=high)


def statistics(report: Report, style: Style) -> Iterator[str]:
    """Findings by rule, the most frequent first, and how many of them `memlint fix` solves."""
    counts: dict[tuple[str, str], list[int]] = {}
    for item in each_finding(report):
        count = counts.setdefault((item.rule, item.name), [0, 0, 0])
        count[0] += 1
        count[1] += written_fix(item) is not None
        count[2] += written_fix(item, unsafe=True) is not None
    for (rule, name), (number, safe, fixable) in sorted(counts.items(), key=lambda pair: (-pair[1][0], pair[0])):
        unsafe = f" ({fixable - safe} with --unsafe)" if fixable > safe else ""
        fixes = f"  {fixable} fixable{unsafe}" if fixable else ""
        yield f"{number:6}  {style.paint(rule, 'rule')}  {name}{fixes}"
