"""What a branch changes, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

import memlint.report.card_figures as card_figures
import memlint.report.unknowns as unknowns
from memlint.findings import Finding
from memlint.memory.values import Estimate, component_words
from memlint.report.comparison.model import DiffReport, FileDiff, RunDiff, ValueChange, moved
from memlint.report.model import RunReport, verdict_of, verdict_role, will_not_start
from memlint.report.terminal import PLAIN, Style, one_line
from memlint.report.text import describe_fix
from memlint.report.units import GIB, gib

NEGLIGIBLE = GIB // 100  # shown as 0.00
CHANGES_SHOWN = 5
COMPONENTS_SHOWN = 3


def render(report: DiffReport, style: Style = PLAIN) -> str:
    blocks = ["\n".join(file_lines(file, style)) for file in report.files]
    notes = [one_line(note) for note in report.notes]
    return "\n\n".join([*blocks, "\n".join([*notes, summary(report)])]) + "\n"


def file_lines(file: FileDiff, style: Style) -> Iterator[str]:
    yield style.paint(title(file), "bold")
    for run in file.runs:
        yield from _run_lines(run, style)
    for item in file.new:
        yield from _finding_lines("new", item, style)
    for item in file.resolved:
        yield from _finding_lines("gone", item, style)


def title(file: FileDiff) -> str:
    """ "train.yaml", "train.yaml (through ds_z3.json)", "new.yaml (was old.yaml)"."""
    notes = [f"was {file.old_path}"] if file.old_path else []
    notes += [file.status] if file.status in ("added", "removed") else []
    notes += [f"through {', '.join(file.via)}"] if file.via else []
    return one_line(file.path + (f" ({'; '.join(notes)})" if notes else ""))


def _run_lines(run: RunDiff, style: Style) -> Iterator[str]:
    if run.before is None or run.after is None:
        alone = run.after or run.before
        found = alone.estimate.on_card if alone is not None else None
        if alone is not None and found is not None:
            yield f"  peak  {card_figures.peak(alone.estimate)}{_card(alone)}: {_verdict(alone, style)}"
        return
    if run.is_unknown:
        yield f"  peak  not estimated, because {unknowns.first(run.after.estimate)}"
        yield from _why(run)
    if run.delta is None and run.trend == "same":
        return
    peak = _peak(run.before.estimate, run.after.estimate, run.delta)
    delta = f", {signed(run.delta)}" if run.delta is not None and abs(run.delta) >= NEGLIGIBLE else ""
    yield f"  peak  {peak}{_card(run.after)}{delta}: {verdicts(run, style)}"
    cards = smallest_cards(run)
    if cards:
        yield f"  needs {cards}"
    parts = [
        f"{component_words(name)} {signed(after - before)} ({gib(before)} -> {gib(after)})"
        for name, before, after in moved(run)
        if abs(after - before) >= NEGLIGIBLE
    ]
    if parts:
        yield f"  {'grew ' if (run.delta or 0) > 0 else 'moved'} {', '.join(parts[:COMPONENTS_SHOWN])}"
    phases = (run.before.estimate.peak_phase, run.after.estimate.peak_phase)
    if phases[0] != phases[1] and all(phases):
        yield f"  phase {phases[0]} -> {phases[1]}".replace("_", " ")
    yield from _why(run)


def _peak(before: Estimate, after: Estimate, delta: int | None) -> str:
    """ "52.10 -> 34.30 GiB (31.20 - 38.04 of 39.38)"."""
    if after.on_card is None:
        return "not estimated"
    if delta is not None and abs(delta) < NEGLIGIBLE:
        return f"{card_figures.figure(after.on_card)} as before"
    return card_figures.change(before.on_card, after.on_card)


def _why(run: RunDiff) -> Iterator[str]:
    yield from (f"  why   {change_text(change)}" for change in run.changes[:CHANGES_SHOWN])


def change_text(change: ValueChange) -> str:
    """ "micro_batch 2 -> 8 (train.yaml:15; alone +12.30 GiB)"."""
    place = [change.place] if change.place else []
    if change.own_effect is not None and abs(change.own_effect) >= NEGLIGIBLE:
        place.append(f"alone {signed(change.own_effect)} GiB")
    note = f" ({'; '.join(place)})" if place else ""
    return one_line(f"{change.name} {change.before} -> {change.after}{note}")


def verdicts(run: RunDiff, style: Style = PLAIN) -> str:
    if run.before is None or run.after is None or verdict_of(run.before) == verdict_of(run.after):
        shown = run.after or run.before
        return _verdict(shown, style) if shown else ""
    return f"{_verdict(run.before, style)} -> {_verdict(run.after, style)}"


def smallest_cards(run: RunDiff) -> str:
    """ "RTX4090 before, A100-40GB now": the smallest common card, where no card is named and it differs."""
    if run.before is None or run.after is None or run.after.hardware.gpu:
        return ""
    before, after = run.before.estimate.fits_on[:1], run.after.estimate.fits_on[:1]
    if before == after:
        return ""
    return f"{before[0] if before else 'no single common card'} before, {after[0] if after else 'none'} now"


def _verdict(run: RunReport, style: Style) -> str:
    if not run.hardware.gpu and run.estimate.verdict == "unknown" and not will_not_start(run):
        if run.estimate.device_bytes is None:
            return "no card named"
        fits = run.estimate.fits_on[:1]
        return f"smallest common card {fits[0]}" if fits else "no common card holds it"
    return style.paint(verdict_of(run), verdict_role(run))


def _card(run: RunReport) -> str:
    return f" on {run.hardware.cards}" if run.hardware.gpu else ""


def signed(value: int | None) -> str:
    if value is None:
        return "?"
    return f"{'+' if value >= 0 else '-'}{gib(abs(value))}"


def _finding_lines(word: str, item: Finding, style: Style) -> Iterator[str]:
    place = f"{one_line(item.location.path)}:{item.location.line}"
    role = item.severity if word == "new" else "good"
    head = f"{style.paint(word.ljust(5), role)} {item.severity} {style.paint(item.rule, 'rule')} {place}"
    yield f"  {head}: {one_line(item.message)}"
    if word == "new" and item.fixes:
        yield f"        {style.paint('fix', 'fix')} {describe_fix(item.fixes[0])}"


def summary(report: DiffReport) -> str:
    """ "main..the working tree: 3 configs affected: 1 worse, 1 better; 2 new findings, 1 resolved"."""
    runs = [run for file in report.files for run in file.runs]
    words = []
    for trend in ("worse", "better"):
        number = sum(run.trend == trend for run in runs)
        words += [f"{number} {trend}"] if number else []
    new = sum(len(file.new) for file in report.files)
    gone = sum(len(file.resolved) for file in report.files)
    grown = sum((run.delta or 0) >= NEGLIGIBLE for run in runs)
    shrunk = sum((run.delta or 0) <= -NEGLIGIBLE for run in runs)
    words += [f"{grown} with a higher peak"] if grown else []
    words += [f"{shrunk} with a lower peak"] if shrunk else []
    words += [f"{new} new finding{'s' * (new != 1)}"] if new else []
    words += [f"{gone} resolved"] if gone else []
    number = len(report.files)
    head = f"{report.base}..{report.head}: {number or 'no'} config{'s' * (number != 1)} affected"
    if report.quiet:
        words.append(f"{report.quiet} more changed without effect on peak, verdict or findings")
    return one_line(head + (f": {', '.join(words)}" if words else ""))
