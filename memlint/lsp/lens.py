"""The code lens above a run: the memory that it takes of its card, and the verdict, worded as on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lsprotocol import types

import memlint.report.card_figures as card_figures
from memlint._record import NamedTuple
from memlint.lsp.positions import Positions
from memlint.lsp.session import CheckedFile
from memlint.report.model import PART, RunReport, verdict_of
from memlint.report.table import run_lines
from memlint.report.terminal import PLAIN, one_line

SHOW_TABLE = "memlint.showTable"


class RunLine(NamedTuple):
    """A run of the file `owner`: its `number` in the report, and the line (from 0) above which it is shown."""

    owner: str
    number: int
    line: int
    report: RunReport


def lenses(path: str, known: Iterable[CheckedFile], positions: Positions) -> Iterator[types.CodeLens]:
    """A code lens for each run of the file at `path`, and for each run that the file takes part in."""
    for run in runs_in(path, known):
        place = positions.at(positions.offset(types.Position(run.line, 0)))
        prefix = "" if run.owner == path else f"{one_line(run.owner)}: "
        command = types.Command(f"{prefix}{title(run.report)}", SHOW_TABLE, arguments=[run.owner, run.number])
        yield types.CodeLens(types.Range(place, place), command)


def runs_in(path: str, known: Iterable[CheckedFile]) -> Iterator[RunLine]:
    """The runs of a file, each at its first line, and the runs of other files for which it is a companion."""
    for one in known:
        reports = iter(enumerate(one.report.runs))
        for analysis in one.analyses:
            for _ in analysis.runs:
                index, report = next(reports)
                if report.purpose == PART:
                    continue
                if analysis.document.path == path:
                    place = analysis.document.places.get(())
                    line = place.value.line - 1 if place is not None and analysis.document.start is not None else 0
                    yield RunLine(one.path, index, line, report)
                elif path in report.related and one.path != path:
                    yield RunLine(one.path, index, 0, report)


def title(run: RunReport) -> str:
    """ "34.30 GiB (31.20 - 38.04 of 39.38) on 8 x A100-40GB: fits"."""
    estimate, hardware = run.estimate, run.hardware
    if estimate.on_card is None:
        return verdict_of(run) if not estimate.unknown else f"not estimated: {one_line(estimate.unknown[0].reason)}"
    card = f" on {hardware.gpus or '?'} x {hardware.gpu}" if hardware.gpu else ""
    words = verdict_of(run) if hardware.gpu or run.stopped_by else "no GPU named"
    return f"{card_figures.peak(estimate)}{card}: {words}"


def table(run: RunReport) -> str:
    """The memory table of a run, as `memlint estimate` prints it."""
    return "\n".join(run_lines(run, PLAIN)) + "\n"
