"""HTML of one result for a notebook's cell: no script, no network, styles inline, every text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import memlint.report.card_figures as card_figures
from memlint.memory.values import Estimate, component_words
from memlint.report.model import Report, RunReport, verdict_of, verdict_role
from memlint.report.table import COMPONENTS, HEADINGS
from memlint.report.terminal import PLAIN, clean, one_line
from memlint.report.text import describe_fix, summary
from memlint.report.totals import totals
from memlint.report.units import gib

FIXES_SHOWN = 3
# White on these is readable (4.5 : 1 and more) whether the notebook is light or dark.
COLOURS = {"error": "#c62828", "warning": "#8f5600", "info": "#0b6a7a", "good": "#2a7230"}
_CELL = "padding:2px 8px;text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums"
_LABEL = "padding:2px 8px;text-align:left;white-space:nowrap"
_CONTAINER = '<div class="memlint" style="overflow-wrap:anywhere">'


def _badge(text: str, role: str) -> str:
    colour = COLOURS.get(role)
    if colour is None:
        return f"<b>{escape(text)}</b>"
    return f'<b style="background:{colour};color:#fff;border-radius:3px;padding:1px 6px">{escape(text)}</b>'


def preformatted(text: str) -> str:
    style = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere;font-family:monospace"
    return f'<pre style="{style}">{escape(clean(text))}</pre>'


def estimate_html(run: RunReport) -> str:
    """The memory table of one run: phases by components, a bar against the card, the verdict."""
    return f"{_CONTAINER}{''.join(_estimate_parts(run))}</div>"


def check_html(report: Report) -> str:
    """The findings with their fixes, and one line of totals."""
    items = "".join(_finding_parts(report))
    total = escape(summary(totals(report), PLAIN))
    return f'{_CONTAINER}<ul style="padding-left:1.2em">{items}</ul><p>{total}</p></div>'


def _estimate_parts(run: RunReport) -> Iterator[str]:
    estimate = run.estimate
    names = ", ".join(map(one_line, (run.path, *run.related)))
    model = ", ".join(part for part in (one_line(run.model.id or ""), one_line(run.summary)) if part)
    yield f"<p><b>{escape(names)}</b><br>{escape(model)}</p>"
    if estimate.phases:
        yield _table(estimate)
    if estimate.on_card is not None and estimate.on_card.usable:
        yield _bar(estimate, estimate.on_card.usable)
    figure = f": {escape(card_figures.peak(estimate))}" if estimate.on_card is not None else ""
    yield f"<p>{_badge(verdict_of(run), verdict_role(run))}{figure}</p>"
    for field, reason in estimate.unknown:
        yield f"<p>unknown <code>{escape(one_line(field))}</code>: {escape(one_line(reason))}</p>"


def _table(estimate: Estimate) -> str:
    phases = estimate.phases
    heads = "".join(f'<th style="{_CELL}">{escape(HEADINGS.get(phase.name, phase.name))}</th>' for phase in phases)
    rows = [f'<tr><th style="{_LABEL}">GiB</th>{heads}</tr>']
    for component in COMPONENTS:
        values = [phase.components.get(component, 0) for phase in phases]
        if any(values):
            cells = "".join(f'<td style="{_CELL}">{gib(value) if value else "-"}</td>' for value in values)
            rows.append(f'<tr><th scope="row" style="{_LABEL}">{component_words(component)}</th>{cells}</tr>')
    peaks = (("<b>{}</b>" if phase.name == estimate.peak_phase else "{}", phase.allocated_bytes) for phase in phases)
    cells = "".join(f'<td style="{_CELL};border-top:1px solid">{form.format(gib(size))}</td>' for form, size in peaks)
    rows.append(f'<tr><th scope="row" style="{_LABEL};border-top:1px solid">allocated</th>{cells}</tr>')
    table = f'<table style="border-collapse:collapse">{"".join(rows)}</table>'
    return f'<div tabindex="0" role="group" aria-label="memory by phase" style="overflow-x:auto">{table}</div>'


def _bar(estimate: Estimate, budget: int) -> str:
    """The interval against the card: what is sure, then what is possible; a line where the card ends."""
    low, high = estimate.device_low_bytes or 0, estimate.device_high_bytes or 0
    whole = max(budget, high)
    colour = COLOURS.get(card_figures.ROLES[estimate.verdict], "#888")
    parts = (("sure", low, 1.0), ("possible", high - low, 0.45))
    inner = "".join(
        f'<span title="{name}" style="width:{100 * size / whole:.2f}%;background:{colour};opacity:{opacity}"></span>'
        for name, size, opacity in parts
    )
    end = f"position:absolute;left:{100 * budget / whole:.2f}%;top:-3px;bottom:-3px;border-left:2px solid"
    outer = "position:relative;display:flex;height:12px;width:32em;max-width:100%"
    outer += ";box-sizing:border-box;border:1px solid #888"
    return f'<div style="{outer}">{inner}<span title="the card" style="{end}"></span></div>'


def _finding_parts(report: Report) -> Iterator[str]:
    for file in report.files:
        for item in file.findings:
            place = f"{one_line(item.location.path)}:{item.location.line}:{item.location.column}"
            head = f"{_badge(item.severity, item.severity)} {escape(item.rule)}"
            message = escape(clean(item.message))
            fixes = "".join(f"<li>{escape(describe_fix(fix))}</li>" for fix in item.fixes[:FIXES_SHOWN])
            listed = f"<ol>{fixes}</ol>" if fixes else ""
            yield f"<li><code>{escape(place)}</code> {head}<br>{message}{listed}</li>"
