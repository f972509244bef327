"""Compares a run with its variants, as text: each component's memory and the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import memlint.report.card_figures as card_figures
from memlint.memory.values import Estimate, component_words
from memlint.question.changes import Variant
from memlint.question.sweep import Sweep
from memlint.report.model import RunReport, verdict_of, verdict_role
from memlint.report.table import COMPONENTS, bar, peak_phase
from memlint.report.terminal import Style, one_line
from memlint.report.units import gib

LABEL = 19
ROWS = ("peak in", *map(component_words, COMPONENTS), "allocated", "on the card", "host memory")


def compare_lines(base: RunReport, variants: tuple[Variant, ...], style: Style) -> Iterator[str]:
    """One column for the run as it is and one per variant: GiB at the variant's own peak, with the change."""
    columns = (Variant("as it is", base), *variants)
    cells = [_column(one.run, base) for one in columns]
    heads = [one_line(one.label) for one in columns]
    widths = [
        max(len(head), *(len(cell) for cell in column.values())) for head, column in zip(heads, cells, strict=True)
    ]
    yield style.paint(base.path, "bold")
    yield f"  {'GiB at the peak':{LABEL}}" + "  ".join(
        f"{head:>{size}}" for head, size in zip(heads, widths, strict=True)
    )
    for row in (row for row in ROWS if any(row in column for column in cells)):
        line = "  ".join(
            f"{column.get(row, _blank(column)):>{size}}" for column, size in zip(cells, widths, strict=True)
        )
        yield f"  {row:{LABEL}}{line}"
    for one in columns:
        yield f"  {one_line(one.label)}: {style.paint(verdict_of(one.run), verdict_role(one.run))}{_figure(one.run)}"
        yield from (f"    refused: {one_line(reason)}" for reason in one.refused)
        yield from (f"    unknown {item.field}: {one_line(item.reason)}" for item in one.run.estimate.unknown)


def _blank(column: dict[str, str]) -> str:
    """The cell of a row that a column lacks: "-" (nothing of this component), or "?" if nothing is estimated."""
    return "?" if column["peak in"] == "?" else "-"


def _figure(run: RunReport) -> str:
    found = run.estimate.on_card
    return f": {card_figures.figure(found)}" if found is not None else ""


def _column(run: RunReport, base: RunReport) -> dict[str, str]:
    """The cells of one run by row."""
    mine, theirs = _rows(run.estimate), _rows(base.estimate)
    found = {"peak in": (peak.name.replace("_", " ") if (peak := peak_phase(run.estimate)) is not None else "?")}
    for row in dict.fromkeys((*theirs, *mine)) if mine else ():
        found[row] = _cell(mine.get(row, 0), theirs.get(row, 0), run is base)
    return found


def _rows(estimate: Estimate) -> Mapping[str, int]:
    """Bytes by row: the components at the peak, their sum, the figure on the card, host memory."""
    peak = peak_phase(estimate)
    found = {component_words(name): size for name, size in peak.components.items() if size} if peak is not None else {}
    if estimate.allocated_bytes is not None:
        found["allocated"] = estimate.allocated_bytes
    if estimate.device_bytes is not None:
        found["on the card"] = estimate.device_bytes
    if estimate.host_bytes:
        found["host memory"] = estimate.host_bytes
    return found


def _cell(mine: int, theirs: int, is_base: bool) -> str:
    if is_base or mine == theirs:
        return gib(mine) if mine else "-"
    sign = "+" if mine > theirs else "-"
    return f"{gib(mine) if mine else '-'} ({sign}{gib(abs(mine - theirs))})"


def sweep_lines(base: RunReport, found: Sweep, style: Style) -> Iterator[str]:
    """One row per value: allocated bytes, the figure on the card with its interval, the verdict."""
    yield style.paint(base.path, "bold")
    width = max(len(found.key), *(len(one.label) for one in found.variants))
    yield f"  {found.key:>{width}}  {'allocated':>9}  {'on the card, GiB':24}"
    for one in found.variants:
        estimate, card = one.run.estimate, one.run.estimate.on_card
        figure = f"{gib(card.figure)} ({card_figures.interval(card)})" if card is not None else "?"
        shown = f" {bar(estimate, card.usable, style)}" if card is not None and card.usable else ""
        verdict = style.paint(verdict_of(one.run), verdict_role(one.run)) if card is None or card.usable else ""
        yield f"  {one.label:>{width}}  {gib(estimate.allocated_bytes):>9}  {figure:24}{shown} {verdict}".rstrip()
