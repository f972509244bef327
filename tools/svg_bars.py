"""Stacked bars as an SVG file that reads well on a phone, on paper, and in light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

WIDTH = 480
MARGIN = 14
ROW = 40  # height of a row: its words, and the bar below them
BAR = 14
LEGEND_ROW = 20
LETTER = 7.2  # width of a letter of the legend
STYLE = """\
text { font: 13px system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif; fill: #16202c }
.page { fill: #ffffff; stroke: #dfe4ea } .well { fill: #eef1f5 } .soft { fill: #526071 }
.edge { stroke: #16202c } .edge-key { fill: #16202c }
.c0 { fill: #2f6fb7 } .c1 { fill: #e08a1e } .c2 { fill: #7a5bb5 } .c3 { fill: #2a9d8f }
.c4 { fill: #c8455d } .c5 { fill: #8c97a5 } .c6 { fill: #b8a13a } .c7 { fill: #4b8f3a }
@media (prefers-color-scheme: dark) {
  text { fill: #e8edf3 } .page { fill: #171e27; stroke: #2a3441 } .well { fill: #202a36 } .soft { fill: #9fadbd }
  .edge { stroke: #e8edf3 } .edge-key { fill: #e8edf3 }
}"""


class Bar(NamedTuple):
    """One row. `parts` are in the unit of the chart, one for each name of the legend."""

    label: str
    parts: Sequence[float]


class Chart(NamedTuple):
    """`names`: what the parts are, each with the number of its colour. `limit`: a line, 0 for none."""

    title: str
    names: Sequence[tuple[str, int]]
    bars: Sequence[Bar]
    unit: str = "GiB"
    limit: float = 0
    limit_name: str = ""


def svg(chart: Chart) -> str:
    """The file's text."""
    return "\n".join(_lines(chart)) + "\n"


def number(value: float) -> str:
    """A figure as it stands beside a bar."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _lines(chart: Chart) -> Iterator[str]:
    entries = list(_legend(chart))
    top = MARGIN + LEGEND_ROW * (1 + max((row for row, *_ in entries), default=-1)) + 4
    height = top + ROW * len(chart.bars) + MARGIN
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
    yield f"<title>{escape(chart.title)}</title>"
    yield f"<style>{STYLE}</style>"
    yield f'<rect class="page" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>'
    for row, left, style, name in entries:
        y = MARGIN + LEGEND_ROW * row
        width = 2 if style == "edge-key" else 11
        yield f'<rect class="{style}" x="{left:g}" y="{y}" width="{width}" height="11"/>'
        yield f'<text class="soft" x="{left + 16:g}" y="{y + 10}">{escape(name)}</text>'
    scale = (WIDTH - 2 * MARGIN) / max([chart.limit * 1.02, *(sum(bar.parts) for bar in chart.bars), 1e-9])
    for index, bar in enumerate(chart.bars):
        yield from _bar(chart, bar, top + ROW * index, scale)
    yield "</svg>"


def _legend(chart: Chart) -> Iterator[tuple[int, float, str, str]]:
    """(row, left, class, name) of each entry that a bar has."""
    row, left = 0, float(MARGIN)
    shown = [(f"c{colour}", name) for index, (name, colour) in enumerate(chart.names) if _has(chart, index)]
    if chart.limit:
        shown.append(("edge-key", chart.limit_name))
    for style, name in shown:
        width = 30 + LETTER * len(name)
        if left > MARGIN and left + width > WIDTH:
            row, left = row + 1, float(MARGIN)
        yield row, left, style, name
        left += width


def _has(chart: Chart, index: int) -> bool:
    return any(bar.parts[index] > 0 for bar in chart.bars)


def _bar(chart: Chart, bar: Bar, top: float, scale: float) -> Iterator[str]:
    wide = WIDTH - 2 * MARGIN
    total = f"{number(sum(bar.parts))} {chart.unit}"
    yield f'<text x="{MARGIN}" y="{top + 13}">{escape(bar.label)}</text>'
    yield f'<text x="{WIDTH - MARGIN}" y="{top + 13}" text-anchor="end">{total}</text>'
    yield f'<rect class="well" x="{MARGIN}" y="{top + 18}" width="{wide}" height="{BAR}" rx="3"/>'
    left = float(MARGIN)
    for part, (_, colour) in zip(bar.parts, chart.names):
        if part > 0:
            width = part * scale
            yield f'<rect class="c{colour}" x="{left:.1f}" y="{top + 18}" width="{width:.1f}" height="{BAR}"/>'
            left += width
    if chart.limit:
        x = MARGIN + chart.limit * scale
        yield f'<path class="edge" d="M{x:.1f} {top + 18}v{BAR}" stroke-width="2"/>'
