"""The text output: each finding with its place, an excerpt with caret, the message and its fixes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import memlint.report.card_figures as card_figures
from memlint.findings import Finding, Fix, Location, written_fix
from memlint.report.model import FileReport, Report
from memlint.report.terminal import PLAIN, Style, clean, columns, one_line, starts_safely
from memlint.report.totals import Totals, totals

TAB = "    "
WIDEST_LINE = 160
FIXES_SHOWN = 3


def render(report: Report, style: Style = PLAIN) -> str:
    """The whole report as text."""
    return "".join(pieces(report, style))


def pieces(report: Report, style: Style = PLAIN) -> Iterator[str]:
    """The report piece by piece, wrapped at the width of the terminal if `style` is of one."""
    if not style.width:
        return _pieces(report, style)
    from memlint.report.wrap import wrapped  # for terminals

    return (wrapped(piece, style.width) for piece in _pieces(report, style))


def _pieces(report: Report, style: Style) -> Iterator[str]:
    """Every finding, tables if asked for, notes, and the totals. On a terminal findings stand below their file."""
    for file in report.files:
        if style.width and file.findings:
            yield style.file_link(style.paint(starts_safely(one_line(file.path)), "path"), file.path) + "\n"
        for item in file.findings:
            yield "\n".join(_placed(item, file, style, report.verbose)) + "\n\n"
    if report.quiet:
        return
    if report.overview or report.statistics:
        yield from _tables(report, style)
    count = totals(report)
    last = [*map(one_line, report.notes), *only_figure(count, style), *not_estimated(count, style)]
    last += [*hints(count), summary(count, style), *fixable(count)]
    yield "\n".join(last) + "\n"


def _placed(finding: Finding, file: FileReport, style: Style, verbose: bool) -> Iterator[str]:
    """The lines of a finding; on a terminal, indented below the file's path."""
    lines = finding_lines(finding, file.texts, style, verbose)
    return (f"  {line}" for line in lines) if style.width else lines


def _tables(report: Report, style: Style) -> Iterator[str]:
    import memlint.report.overview as overview  # for folders, and --statistics

    if report.overview and (table := list(overview.runs_table(report, style))):
        yield "\n".join(table) + "\n\n"
    if report.statistics and (counted := list(overview.statistics(report, style))):
        yield "\n".join(counted) + "\n\n"


def only_figure(count: Totals, style: Style) -> Iterator[str]:
    """What the only run takes, where no finding says it: it fits, or its card is not known."""
    run = count.only_run
    if run is None or run.stopped_by or run.estimate.device_bytes is None:
        return
    figures = card_figures.peak(run.estimate)
    path = style.file_link(style.paint(starts_safely(one_line(run.path)), "path"), run.path)
    if run.hardware.gpu and run.estimate.verdict == "fits":
        word = style.paint(card_figures.words_of(run.estimate), "good")
        cards = run.hardware.cards if run.hardware.gpus else f"each {run.hardware.gpu}"
        yield f"{path}: {word}: {figures} on {cards}"
    elif not run.hardware.gpu:
        cards = ", ".join(run.estimate.fits_on[:4])
        held = f"; smallest common cards that hold it: {cards}" if cards else "; no common card is sure to hold it"
        yield f"{path}: on the card {figures}{'' if run.estimate.readings else held}"


def not_estimated(count: Totals, style: Style) -> Iterator[str]:
    """One line for each of the first runs without a figure: its file, and what is not known of it."""
    if not count.not_estimated:
        return
    import memlint.report.unknowns as unknowns  # where something is unknown

    for run in count.not_estimated:
        path = style.file_link(style.paint(starts_safely(one_line(run.path)), "path"), run.path)
        what = "no verdict" if run.estimate.readings else "not estimated"
        yield f"{path}: {what}, because {unknowns.first(run.estimate)}"
    if count.more_not_estimated:
        yield f"{plural(count.more_not_estimated, 'more run')} not estimated: `memlint estimate` says why"


def hints(count: Totals) -> Iterator[str]:
    """Hints about options that would let memlint find more."""
    if not count.files:
        yield (
            "no file to check: memlint reads YAML, JSON, TOML, Python, notebooks, shell scripts and Makefiles; "
            "`exclude` in memlint.yaml and .gitignore leave files out"
        )
    if count.files and not count.recognised and not any(count.by_severity.values()):
        yield (
            "no config that memlint knows: it reads LLaMA-Factory, Axolotl, ms-swift, verl, EasyR1, SkyRL, NeMo-RL, "
            "AReaL, torchtune, TorchTitan, Oumi, AutoTrain, DeepSpeed, accelerate and Trainer/TRL files, launches in "
            "shell scripts (OpenRLHF, slime and Megatron-LM too), and trainers in Python scripts and notebooks"
        )
    if count.cardless:
        one = count.cardless == 1
        whose, fits = ("the run", "it fits") if one else (f"{count.cardless} runs", "they fit")
        yield (
            f"no GPU is named for {whose}, so memlint does not say whether {fits}: --gpu H100-80GB, `gpu:` in "
            "memlint.yaml, or a comment `# memlint: gpu=H100-80GB gpus=8`"
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


def finding_lines(finding: Finding, texts: Mapping[str, str], style: Style, verbose: bool = False) -> Iterator[str]:
    """The lines about one finding. `texts`: texts by path, for excerpts. `verbose`: all fixes and the rule's reason."""
    yield headline(finding, style)
    yield "  " + starts_safely(clean(finding.message)).replace("\n", "\n  | ")
    yield from excerpt(finding.location, texts, style, finding.severity)
    marks = [*[""] * (len(finding.related) - len(finding.causes)), *(_mark(cause, style) for cause in finding.causes)]
    for (place, label), mark in zip(finding.related, marks):
        yield f"  {style.paint('see', 'dim')} {where(place, style, finding.location.path)}: {one_line(label)}{mark}"
        yield from excerpt(place, texts, style, "info")
    for index, fix in enumerate(finding.fixes[: None if verbose else FIXES_SHOWN], 1):
        yield f"  {style.paint(f'fix {index}', 'fix')}  {one_line(fix.title)}"
        if outcome := _outcome(fix, style):
            yield f"         {outcome}"
        if verbose:
            yield from _change(fix, texts, style)
    if verbose and finding.why:
        yield f"  {style.paint('why', 'dim')}    {one_line(finding.why)}"
        yield f"  {style.paint('more', 'dim')}   {one_line(finding.url) or f'memlint explain {finding.rule}'}"


def _change(fix: Fix, texts: Mapping[str, str], style: Style) -> Iterator[str]:
    """The lines that a fix removes and adds."""
    from memlint.report.changes import changed_lines  # --verbose

    for sign, line in changed_lines(fix, texts):
        room = (style.width - 10 if style.width else WIDEST_LINE) // (1 if line.isascii() else 2)
        shown, _ = window(_printable(line), 0, 0, room)
        bar = style.paint("|", "dim")
        yield f"    {bar} {style.paint(f'{sign} {shown}', 'good' if sign == '+' else 'error')}"


def headline(finding: Finding, style: Style) -> str:
    """Place, severity, id and name of a finding, and what `memlint fix` would do about it."""
    rule = style.link(style.paint(finding.rule, "rule"), finding.url)
    level = style.paint(finding.severity, finding.severity)
    place = where(finding.location, style, finding.location.path)
    return f"{place}: {level} {rule} {style.paint(finding.name, 'dim')}{_mark(finding, style)}"


def _mark(finding: Finding, style: Style) -> str:
    """ " [fixable]": the fix that `memlint fix` would write, with its number where that is not the first."""
    fix = written_fix(finding)
    option = "" if fix else " with --unsafe"
    fix = fix or written_fix(finding, unsafe=True)
    if fix is None:
        return ""
    number = finding.fixes.index(fix) + 1
    return style.paint(f" [fixable{option}{f': fix {number}' if number > 1 else ''}]", "fix")


def where(place: Location, style: Style, below: str = "") -> str:
    """path:line:column, as a link where the terminal supports it. `below`: the path above it on a terminal."""
    path = "" if style.width and place.path == below else f"{starts_safely(one_line(place.path))}:"
    text = f"{path}{place.line}:{place.column}"
    return style.file_link(style.paint(text, "bold"), place.path, place.line, place.column)


def describe_fix(fix: Fix) -> str:
    """A fix in one line: its title, and what it brings."""
    return "; ".join(filter(None, (one_line(fix.title), _outcome(fix))))


def _outcome(fix: Fix, style: Style = PLAIN) -> str:
    """What a fix brings: the verdict, what the run takes of its card before and after, and what the fix costs."""
    peak = f"peak {card_figures.change(fix.before, fix.after)}" if fix.after else ""
    parts = [": ".join(filter(None, (_verdict_after(fix, style), peak))), _cost(fix), one_line(fix.note)]
    return "; ".join(filter(None, parts))


def _verdict_after(fix: Fix, style: Style) -> str:
    """The verdict of the run as a fix leaves it; "" if it is not known."""
    if not fix.verdict_after or fix.verdict_after == "unknown":
        return ""
    words = _still(fix) + card_figures.verdict_words(fix.verdict_after, fix.after)
    return style.paint(words, card_figures.ROLES[fix.verdict_after])


def _still(fix: Fix) -> str:
    """ "still " for a fix after which the run does not fit, and needs no more than before; else ""."""
    less = fix.before is not None and fix.after is not None and fix.after.figure <= fix.before.figure
    return "still " if fix.verdict_after == "out_of_memory" and less else ""


def _cost(fix: Fix) -> str:
    words = []
    if slower := card_figures.slower(fix.speed):
        words.append(slower)
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
    end = place.end_column if place.end_line == place.line else len(line) + 1
    before = _printable(line[: place.column - 1])
    marked = _printable(line[place.column - 1 : max(place.column, end) - 1]) or " "
    room = (style.width - len(number) - 7 if style.width else WIDEST_LINE) // (1 if line.isascii() else 2)
    shown, start = window(_printable(line), len(before), len(before) + len(marked), room)
    indent = columns(shown[:start])
    carets = max(1, columns(shown[start : start + len(marked)]))
    bar = style.paint("|", "dim")
    yield f"  {style.paint(number, 'dim')} {bar} {shown}"
    yield f"  {' ' * len(number)} {bar} {' ' * indent}{style.paint('^' * carets, role)}"


def window(line: str, start: int, end: int, room: int) -> tuple[str, int]:
    """The part of `line` around characters `start` to `end` that `room` characters hold, and where `start` is in it.

    It is cut between words where there are some; "..." stands for what is left out.
    """
    if len(line) <= room:
        return line, start
    left = 0
    if end > room - 4:
        left = max(0, min(start, max(start - room // 3, end - room + 8)))
        left = min(start, line.find(" ", left, start) + 1 or left)
    head = "... " if left else ""
    last = left + room - len(head)
    if last >= len(line):
        return head + line[left:], start - left + len(head)
    space = line.rfind(" ", max(left, min(end, last - 4)), last - 3)
    return f"{head}{line[left : space if space > 0 else last - 4]} ...", start - left + len(head)


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


def fixable(count: Totals) -> Iterator[str]:
    """What `memlint fix` would do: "4 fixable (2 with --unsafe): memlint fix"."""
    number = count.fixable + count.unsafe_fixable
    if not number:
        return
    if not count.fixable:
        yield f"{number} fixable with --unsafe: memlint fix --unsafe"
        return
    unsafe = f" ({count.unsafe_fixable} with --unsafe)" if count.unsafe_fixable else ""
    yield f"{number} fixable{unsafe}: memlint fix"


def plural(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 or word == 'info' else 's'}"
