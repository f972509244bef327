"""The text output: each finding with its place, an excerpt with caret, the message and its fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import memlint.report.card_figures as card_figures
from memlint.findings import Finding, Fix, Location
from memlint.report.model import Report, Totals, totals
from memlint.report.terminal import PLAIN, Style, clean, one_line, starts_safely

TAB = "    "
WIDEST_LINE = 160
FIXES_SHOWN = 3


def render(report: Report, style: Style = PLAIN) -> str:
    """The whole report as text."""
    return "".join(pieces(report, style))


def pieces(report: Report, style: Style = PLAIN) -> Iterator[str]:
    """The report piece by piece: every finding, tables if asked for, notes, and one line of totals."""
    for file in report.files:
        for item in file.findings:
            yield "\n".join(finding_lines(item, file.texts, style)) + "\n\n"
    if report.overview or report.statistics:
        yield from _tables(report, style)
    count = totals(report)
    yield "\n".join([*map(one_line, report.notes), *hints(count), summary(count, style)]) + "\n"


def _tables(report: Report, style: Style) -> Iterator[str]:
    import memlint.report.overview as overview  # for folders, and --statistics

    if report.overview and (table := list(overview.runs_table(report, style))):
        yield "\n".join(table) + "\n\n"
    if report.statistics and (counted := list(overview.statistics(report, style))):
        yield "\n".join(counted) + "\n\n"


def hints(count: Totals) -> Iterator[str]:
    """Hints about options that would let memlint find more."""
    if count.files and not count.recognised and not any(count.by_severity.values()):
        yield (
            "no config that memlint knows: it reads LLaMA-Factory, Axolotl, ms-swift, verl, DeepSpeed, Trainer/TRL and "
            "accelerate files, launches in shell scripts, and trainers in Python scripts and notebooks"
        )
    if count.cardless:
        whose = "the run" if count.cardless == 1 else f"{count.cardless} runs"
        yield (
            f"no GPU is named for {whose}, so nothing is held against one: --gpu H100-80GB, `gpu:` in memlint.yaml, or "
            "a comment `# memlint: gpu=H100-80GB gpus=8`"
        )
    if count.launched:
        one = len(count.launched) == 1
        whose, what = ("the run is", "it") if one else (f"{len(count.launched)} runs are", "them")
        more = " ..." if len(set(count.launched)) > 1 else ""
        yield (
            f"{whose} read as commands in the repository launch {what} ({one_line(count.launched[0])}{more}); "
            "--with, or `with:` in memlint.yaml, is heard first"
        )
    if count.unlaunched:
        yield (
            f"`with: [{one_line(count.unlaunched)}]` in memlint.yaml would say for good what launches the runs, under "
            "`overrides:` for some of them"
        )


def finding_lines(finding: Finding, texts: Mapping[str, str], style: Style) -> Iterator[str]:
    """The lines about one finding. `texts`: texts of files by path, for excerpts."""
    yield headline(finding, style)
    yield "  " + starts_safely(clean(finding.message)).replace("\n", "\n  | ")
    yield from excerpt(finding.location, texts, style, finding.severity)
    for place, label in finding.related:
        yield f"  {style.paint('see', 'dim')} {where(place, style)}: {one_line(label)}"
        yield from excerpt(place, texts, style, "info")
    for index, fix in enumerate(finding.fixes[:FIXES_SHOWN], 1):
        yield f"  {style.paint(f'fix {index}', 'fix')}  {describe_fix(fix)}"


def headline(finding: Finding, style: Style) -> str:
    """Place, severity, id and name of a finding."""
    rule = style.link(style.paint(finding.rule, "rule"), finding.url)
    level = style.paint(finding.severity, finding.severity)
    return f"{where(finding.location, style)}: {level} {rule} {style.paint(finding.name, 'dim')}"


def where(place: Location, style: Style) -> str:
    """path:line:column, as a link where the terminal supports it."""
    text = f"{starts_safely(one_line(place.path))}:{place.line}:{place.column}"
    return style.file_link(style.paint(text, "bold"), place.path)


def describe_fix(fix: Fix) -> str:
    """The title of a fix, what the run takes of its card before and after it, the verdict after it, and its cost."""
    parts = [one_line(fix.title)]
    if fix.after:
        parts.append(f"peak {card_figures.change(fix.before, fix.after)}")
    if fix.verdict_after and fix.verdict_after != "unknown":
        parts.append(_still(fix) + card_figures.verdict_words(fix.verdict_after, fix.after))
    cost = _cost(fix)
    if cost:
        parts.append(cost)
    if fix.note:
        parts.append(one_line(fix.note))
    return "; ".join(parts)


def _still(fix: Fix) -> str:
    """ "still " where the run does not fit and needs no more than before."""
    less = fix.before is not None and fix.after is not None and fix.after.figure <= fix.before.figure
    return "still " if fix.verdict_after == "out_of_memory" and less else ""


def _cost(fix: Fix) -> str:
    words = []
    if fix.speed > 1.005:
        words.append(f"about {round((fix.speed - 1) * 100)} % slower")
    elif fix.speed < 0.995:
        words.append("faster")
    if fix.quality != "none":
        words.append(f"{fix.quality} risk for the result")
    return ", ".join(words)


def excerpt(place: Location, texts: Mapping[str, str], style: Style, role: str) -> Iterator[str]:
    """The line of `place` and carets below it; nothing if `texts` does not have the file."""
    line = source_line(texts.get(place.path), place.line)
    if line is None:
        return
    number = str(place.line)
    gutter = " " * len(number)
    end = place.end_column if place.end_line == place.line else len(line) + 1
    before = _printable(line[: place.column - 1])
    marked = _printable(line[place.column - 1 : max(place.column, end) - 1]) or " "
    printed = _printable(line)
    bar = style.paint("|", "dim")
    if len(before) + len(marked) > WIDEST_LINE:
        marked = marked[: max(1, WIDEST_LINE - len(before))]
    if len(before) >= WIDEST_LINE:
        cut = len(before) - 40
        before, printed = before[cut:], printed[cut:]
        marked = marked[:60]
    yield f"  {style.paint(number, 'dim')} {bar} {printed[:WIDEST_LINE]}"
    yield f"  {gutter} {bar} {' ' * _width(before)}{style.paint('^' * max(1, _width(marked)), role)}"


def source_line(text: str | None, number: int) -> str | None:
    """Line `number` (from 1) without its line end; None if there is no text or no such line."""
    if text is None or number < 1:
        return None
    start = 0
    for _ in range(number - 1):
        start = text.find("\n", start) + 1
        if not start:
            return None
    end = text.find("\n", start)
    return (text[start:] if end < 0 else text[start:end]).rstrip("\r")


def _printable(text: str) -> str:
    return clean(text).replace("\t", TAB)


def _width(text: str) -> int:
    """Columns on a terminal: East Asian wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def summary(count: Totals, style: Style) -> str:
    """ "3 files, 2 training configs: 1 error, 2 warnings; 1 out of memory, 1 fits"."""
    found = [plural(number, severity) for severity, number in count.by_severity.items() if number]
    verdicts = [f"{count.stopped} will not start"] if count.stopped else []
    verdicts += [f"{number} {name.replace('_', ' ')}" for name, number in count.verdicts.items() if number]
    not_shown = [f"{count.suppressed} suppressed"] * bool(count.suppressed)
    not_shown += [f"{count.baselined} in the baseline"] * bool(count.baselined)
    head = f"{plural(count.files, 'file')}, {count.recognised} recognised: {', '.join(found) or 'no findings'}"
    role = "error" if count.by_severity["error"] else "warning" if found else "good"
    return "; ".join([style.paint(head, role), *([", ".join(verdicts)] if verdicts else []), *not_shown])


def plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 or word == 'info' else 's'}"
