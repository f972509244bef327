"""What a branch changes, as the comment under a pull request: one table, the rest folded."""

from __future__ import annotations

from collections.abc import Iterator

import memlint.report.card_figures as card_figures
import memlint.report.unknowns as unknowns
from memlint.findings import Finding
from memlint.memory.values import Estimate, component_words
from memlint.report.comparison.model import RANK, DiffReport, FileDiff, RunDiff, moved
from memlint.report.comparison.text import NEGLIGIBLE, change_text, signed, smallest_cards, summary
from memlint.report.markdown import escape, html, prose
from memlint.report.model import RunReport, verdict_of, will_not_start
from memlint.report.text import describe_fix
from memlint.report.units import gib

# By this line a bot finds its own comment and edits it instead of writing another.
MARKER = "<!-- memlint-diff -->"
LARGEST = 65_000  # characters; GitHub refuses comments of more than 65,536
ROWS = 50
MARKS = {"fits": "✅", "tight": "⚠️", "out_of_memory": "❌", "unknown": "❔"}


def render(report: DiffReport) -> str:
    text = "\n".join([MARKER, f"### {_headline(report)}", "", *_table(report)]) + "\n"
    text += "".join(f"\n{escape(note)}\n" for note in report.notes)
    left = 0
    for file in report.files:
        inner = list(_inside(file))
        block = "\n".join(["", *_folded(file, inner)]) + "\n" if inner else ""
        if len(text) + len(block) > LARGEST:
            left += 1
        else:
            text += block
    if left:
        text += f"\n{left} more configs: `memlint diff {escape(report.base)} {escape(report.head)}` shows them.\n"
    return text + f"\n<sub>{escape(summary(report))} · memlint {escape(report.version)}</sub>\n"


def _headline(report: DiffReport) -> str:
    runs = [run for file in report.files for run in file.runs]
    worse = sum(run.trend == "worse" for run in runs)
    better = sum(run.trend == "better" for run in runs)
    errors = sum(item.severity == "error" for file in report.files for item in file.new)
    if worse:
        return f"❌ GPU memory: {worse} run{'s' * (worse != 1)} would get worse"
    if errors:
        return f"❌ {errors} new error{'s' * (errors != 1)} in training configs"
    if better:
        return f"✅ GPU memory: {better} run{'s' * (better != 1)} would get better"
    return "GPU memory: verdicts stay the same" if report.files else "GPU memory: nothing changes"


def _table(report: DiffReport) -> Iterator[str]:
    rows = [(file, run) for file in report.files for run in file.runs if _is_estimated(run)]
    if not rows:
        return
    yield "| config | card | peak on the card | change | verdict | most of it |"
    yield "|---|---|---:|---:|---|---|"
    for file, run in rows[:ROWS]:
        yield _row(file, run)
    if len(rows) > ROWS:
        yield ""
        yield f"and {len(rows) - ROWS} more"


def _is_estimated(run: RunDiff) -> bool:
    return any(side is not None and side.estimate.device_bytes is not None for side in (run.before, run.after))


def _row(file: FileDiff, run: RunDiff) -> str:
    shown = run.after or run.before
    assert shown is not None
    name = escape(file.path) + (f" *({file.status})*" if file.status in ("added", "removed") else "")
    if file.via:
        name += f"<br>through {escape(', '.join(file.via))}"
    card = shown.hardware.cards or "not named"
    delta = f"**{signed(run.delta)}**" if run.delta is not None and abs(run.delta) >= NEGLIGIBLE else ""
    return f"| {name} | {escape(card)} | {_peaks(run)} | {delta} | {_verdicts(run)} | {escape(_most(run))} |"


def _peaks(run: RunDiff) -> str:
    before, after = (side.estimate.on_card if side else None for side in (run.before, run.after))
    if after is not None:
        return card_figures.change(before, after).replace("->", "→")
    return card_figures.figure(before) + (" → ?" if run.after else "") if before else "?"


def _verdicts(run: RunDiff) -> str:
    return " → ".join(dict.fromkeys(_verdict(side) for side in (run.before, run.after) if side is not None))


def _verdict(run: RunReport) -> str:
    if will_not_start(run):
        return f"❌ {escape(verdict_of(run))}"
    if run.estimate.verdict in RANK or run.hardware.gpu:
        return f"{MARKS[run.estimate.verdict]} {verdict_of(run)}"
    if run.estimate.device_bytes is None:
        return "❔ no card named"
    fits = run.estimate.fits_on[:1]
    return f"needs {escape(fits[0])}" if fits else "❌ no common card holds it"


def _most(run: RunDiff) -> str:
    first = next(((n, b, a) for n, b, a in moved(run) if abs(a - b) >= NEGLIGIBLE), None)
    return f"{first[0].replace('_', ' ')} {signed(first[2] - first[1])}" if first else ""


def _folded(file: FileDiff, inner: list[str]) -> Iterator[str]:
    words = [f"{len(file.new)} new" * bool(file.new), f"{len(file.resolved)} resolved" * bool(file.resolved)]
    suffix = "".join(f", {word}" for word in words if word)
    opened = " open" if file.is_regression else ""
    yield f"<details{opened}><summary><code>{html(file.path)}</code>{suffix}</summary>"
    yield from inner
    yield ""
    yield "</details>"


def _inside(file: FileDiff) -> Iterator[str]:
    for run in file.runs:
        if run.is_unknown and run.after is not None:
            yield ""
            yield f"Not estimated, because {prose(unknowns.first(run.after.estimate))}"
        if run.changes and (run.is_unknown or _is_estimated(run)):
            yield ""
            yield from (f"- {escape(change_text(change))}" for change in run.changes[:8])
        if cards := smallest_cards(run):
            yield f"- smallest common card: {escape(cards)}"
        yield from _components(run)
    yield from _findings("New", file.new)
    yield from _findings("Resolved", file.resolved)


def _components(run: RunDiff) -> Iterator[str]:
    if run.before is None or run.after is None or not any(moved(run)):
        return
    yield ""
    yield f"| at the peak (GiB) | before: {_phase(run.before.estimate)} | after: {_phase(run.after.estimate)} | |"
    yield "|---|---:|---:|---:|"
    for name, before, after in moved(run):
        if abs(after - before) >= NEGLIGIBLE:
            yield f"| {component_words(name)} | {gib(before)} | {gib(after)} | {signed(after - before)} |"
    old, new = run.before.estimate, run.after.estimate
    yield f"| **allocated** | {gib(old.allocated_bytes)} | {gib(new.allocated_bytes)} | |"
    yield f"| **on the card** | {_interval(old)} | {_interval(new)} | |"


def _phase(estimate: Estimate) -> str:
    return estimate.peak_phase.replace("_", " ")


def _interval(estimate: Estimate) -> str:
    return card_figures.peak(estimate)


def _findings(word: str, items: tuple[Finding, ...]) -> Iterator[str]:
    if not items:
        return
    yield ""
    yield f"**{word}**"
    yield ""
    for item in items:
        place = f"`{html(item.location.path).replace('`', '')}:{item.location.line}`"
        yield f"- {item.severity} **{item.rule}** {place} {prose(item.message)}"
        if word == "New":
            yield from (f"  - fix: {prose(describe_fix(fix))}" for fix in item.fixes[:2])
