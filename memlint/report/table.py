"""The memory table of one run: phases by components, a bar against the card, where the peak is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import memlint.report.card_figures as card_figures
import memlint.report.unknowns as unknowns
from memlint._record import NamedTuple
from memlint.findings import reading_errors
from memlint.hardware.named import REQUESTED
from memlint.memory.unknown.readings import doubt, in_words, span
from memlint.memory.values import Assumption, Estimate, Phase, ReadingEstimate, component_words
from memlint.report.model import PART, Report, RunReport, verdict_of, verdict_role
from memlint.report.terminal import PLAIN, Style, one_line
from memlint.report.units import count, gib

COMPONENTS = (
    *("weights", "gradients", "optimizer_states", "activations", "logits", "temporaries", "communication"),
    "kv_cache",  # while tokens are generated
    "engine",  # an inference engine on the same card
)
HEADINGS = {
    "optimizer_step": "optimizer",
    "log_probabilities": "log probs",
    "weight_sync": "weight sync",
    "value_update": "critic",
}
BAR = 60
LABEL = 19  # columns of a row before its first figure


def render(report: Report, style: Style = PLAIN) -> str:
    """One table per run, and a line for each file that could not be read.

    A file of an engine (a DeepSpeed JSON) that takes part in another file's run gets no table of its own.
    """
    runs = [run for file in report.files for run in file.runs]
    parts = {name for run in runs if run.purpose != PART for name in run.related}
    shown = (run for run in runs if run.purpose != PART or run.path not in parts)
    blocks = ["\n".join(run_lines(run, style)) for run in shown]
    blocks += [one_line(line) for file in report.files if not file.runs for line in reading_errors(file.findings)]
    text = "\n\n".join(blocks) or "\n".join(_without_runs(report))
    if style.width:
        from memlint.report.wrap import wrapped  # for terminals

        text = wrapped(text, style.width)
    return text + "\n"


def _without_runs(report: Report) -> Iterator[str]:
    """Why there is nothing to estimate: programs that scripts start and that no format reads, and Python files whose
    runs are not seen, if there are any."""
    unread = [
        f"{file.path} starts {' and '.join(file.unread[:3])}, which memlint does not read"
        for file in report.files
        if file.unread
    ]
    unread += [
        f"{file.path} may train, and its code could not be followed to a model or a batch size"
        for file in report.files
        if file.hides_its_run
    ]
    for why in unread or ["no training config among these files"]:
        yield one_line(f"nothing to estimate: {why}")


def run_lines(run: RunReport, style: Style) -> Iterator[str]:
    estimate = run.estimate
    yield title(run, style)
    yield f"  {_model_line(run)}"
    yield from _versions(run, style)
    if run.launched:
        otherwise = f", {one_line(run.launched_otherwise)}" if run.launched_otherwise else ""
        yield f"  launched as in {one_line(run.launched)}{otherwise}"
    if estimate.phases:
        yield ""
        yield from _table(estimate, style)
        yield ""
    yield from _verdict_lines(run, style)
    yield from _notes(estimate, style)


def title(run: RunReport, style: Style) -> str:
    names = ", ".join(one_line(name) for name in (run.path, *run.related))
    return style.paint(names, "bold")


def _model_line(run: RunReport) -> str:
    model, hardware = run.model, run.hardware
    trained = ""
    if model.trainable_parameters and model.parameters:
        share = 100 * model.trainable_parameters / model.parameters
        trained = f", {count(model.trainable_parameters)} train ({share:.3g} %)"
    name = one_line(model.id or "model not named")
    here = run.estimate.details.get("parameters_per_gpu")
    each = f" ({count(here)} per GPU)" if here else ""
    known = f"{name}: {count(model.parameters)} parameters{each}{trained}" if model.parameters else name
    card = hardware.cards or "no GPU named"
    return "; ".join(part for part in (known, one_line(run.summary), card) if part)


def _table(estimate: Estimate, style: Style) -> Iterator[str]:
    """Phases by components. If the terminal is too narrow for all phases, several tables below each other."""
    columns = [_column(phase) for phase in estimate.phases]
    peak = _peak_index(estimate)
    first = 0
    while first < len(columns):
        last = _last_that_fits(columns, first, style.width)
        yield from [""] * bool(first)
        shown = None if peak is None or not first <= peak < last else peak - first
        yield from _part(estimate.phases[first:last], columns[first:last], shown, style)
        first = last


class PhaseColumn(NamedTuple):
    heading: str
    width: int


def _column(phase: Phase) -> PhaseColumn:
    heading = HEADINGS.get(phase.name, phase.name)
    return PhaseColumn(heading, max(8, len(heading)))


def _last_that_fits(columns: list[PhaseColumn], first: int, width: int) -> int:
    """The end index of the columns that fit beside the row labels, starting at `first`; at least one is taken."""
    room = (width or sum(2 + column.width for column in columns) + LABEL) - LABEL
    last = first
    while last < len(columns) and room >= columns[last].width:
        room -= columns[last].width + 2
        last += 1
    return max(last, first + 1)


def _part(phases: Sequence[Phase], columns: list[PhaseColumn], peak: int | None, style: Style) -> Iterator[str]:
    """The table of some phases. `peak`: the index of the one with the peak; None if it is not among them."""
    widths = [column.width for column in columns]
    yield "  " + _row("GiB", [column.heading for column in columns], widths)
    for component in COMPONENTS:
        values = [phase.components.get(component, 0) for phase in phases]
        if any(values):
            yield "  " + _row(component_words(component), [gib(value) if value else "-" for value in values], widths)
    totals = [gib(phase.allocated_bytes) for phase in phases]
    cells = [f"{text:>{width}}" for text, width in zip(totals, widths)]
    if peak is not None:
        cells[peak] = style.paint(cells[peak], "bold")
    yield "  " + f"{'allocated':17s}" + "  ".join(cells)
    if peak is not None:
        marks = ["^ peak" if index == peak else "" for index in range(len(phases))]
        yield "  " + _row("", marks, widths).rstrip()


def _row(label: str, cells: list[str], widths: list[int]) -> str:
    return f"{label:17s}" + "  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths))


def _peak_index(estimate: Estimate) -> int | None:
    names = [phase.name for phase in estimate.phases]
    return names.index(estimate.peak_phase) if estimate.peak_phase in names else None


def peak_phase(estimate: Estimate) -> Phase | None:
    index = _peak_index(estimate)
    return None if index is None else estimate.phases[index]


def _verdict_lines(run: RunReport, style: Style) -> Iterator[str]:
    estimate, hardware = run.estimate, run.hardware
    found, role = estimate.on_card, verdict_role(run)
    if found is None:
        if estimate.readings:
            yield "  by the number of GPUs:"
            yield from (f"    {span(one)} {one.label}{_held(one, hardware.gpu)}" for one in estimate.readings)
        else:
            yield f"  {style.paint('not estimated' if estimate.unknown else verdict_of(run), role)}"
        yield from _host_lines(estimate)
        return
    parts = f"tensors {gib(estimate.allocated_bytes)}, reserved by PyTorch {gib(estimate.reserved_bytes)}"
    figures = f"{card_figures.peak(estimate)}: {parts}"
    if found.usable:
        size = min(BAR, style.width - len(hardware.gpu or "") - 5) if style.width else BAR
        yield f"  {hardware.gpu} {bar(estimate, found.usable, style, size)}"
        yield f"  {style.paint(verdict_of(run), role)}: {figures}"
    else:
        yield f"  on the card {figures}"
    if card_figures.spans_readings(estimate):
        yield f"  whichever holds: {in_words(estimate.readings)}"
    if found.usable and card_figures.words_of(estimate) == "barely fits":
        yield f"  {card_figures.why_barely(found)}"
    if estimate.fits_on and estimate.verdict != "fits" and not estimate.readings:
        yield f"  smallest common cards that hold it: {', '.join(estimate.fits_on[:4])}"
    if estimate.details.get("other_models_bytes"):
        yield f"  of the weights {gib(estimate.details['other_models_bytes'])} GiB are models beside the trained one"
    if "most_image_tokens" in estimate.details:
        yield f"  {_images_note(estimate.details)}"
    if "cache_tokens" in estimate.details:
        yield f"  {_cache_note(estimate.details)}"
    yield from _host_lines(estimate)


def _held(one: ReadingEstimate, card: str | None) -> str:
    """Whether the card holds a reading's figure; "" where no card is known."""
    return f": {card_figures.VERDICTS[one.verdict]}" if card else ""


def _host_lines(estimate: Estimate) -> Iterator[str]:
    """What the host of one machine holds: in training, while the model is loaded, and while it is saved whole."""
    sizes = (
        ("in training", estimate.host_bytes or 0),
        ("while loading", estimate.details.get("host_loading_bytes", 0)),
        ("while saving", estimate.details.get("host_saving_bytes", 0)),
    )
    told = [f"{gib(size)} GiB {when}" for when, size in sizes if size]
    if told:
        yield f"  host memory per node: {', '.join(told)}"


def _images_note(details: Mapping[str, int]) -> str:
    """The images that are assumed: "images in a sample: 1 of 784 tokens, at most 2,048 tokens of images"."""
    counted, each = details["images"], details["tokens_per_image"]
    central = f"{counted} of {each:,} tokens each" if counted else "none"
    if details["image_tokens"] == details["most_image_tokens"]:
        return f"images in a sample: {central}"
    most = f"{details['most_image_tokens']:,} tokens of images at the upper end"
    return f"images in a sample: {central} in the table, {most}; --images N fixes their number"


def _cache_note(details: Mapping[str, int]) -> str:
    """What a server's cache holds: "KV cache: 47.1 GiB left, about 385,000 tokens or 94 requests of 4,096 tokens"."""
    each = details["cache_request_bytes"]
    length = round(details["cache_tokens"] * each / details["cache_bytes"]) if details["cache_bytes"] else 0
    requests = f"{details['cache_requests']:,} of the longest requests ({length:,} tokens)"
    left = f"KV cache: {gib(details['cache_bytes'])} GiB left"
    return f"{left}, about {details['cache_tokens']:,} tokens or {requests} at once" if length else left


def bar(estimate: Estimate, budget: int, style: Style, size: int = BAR) -> str:
    """`[####====..|..]`: `#` up to the low end of the interval, `=` up to the high end, `.` free; `|` marks the card's
    end if the run may need more."""
    low, high = estimate.device_low_bytes or 0, estimate.device_high_bytes or 0
    whole = max(budget, high)
    full, part, shade = ("█", "▒", "·") if style.blocks else ("#", "=", ".")
    sure = min(size, round(size * low / whole))
    maybe = min(size - sure, max(0, round(size * high / whole) - sure))
    cells = full * sure + part * maybe + shade * (size - sure - maybe)
    if high > budget:
        edge = min(size - 1, round(size * budget / whole))
        cells = cells[:edge] + "|" + cells[edge + 1 :]
    return f"[{style.paint(cells, card_figures.ROLES[estimate.verdict])}]"


def _notes(estimate: Estimate, style: Style) -> Iterator[str]:
    doubt_above = doubt(estimate)  # already shown with the figures of each reading
    for one in estimate.unknown:
        if doubt_above and one.reason.startswith(doubt_above):
            one = one._replace(reason=f"{doubt_above}{_HOW_TO_STATE.get(one.field, '')}")
        yield f"  {style.paint('unknown', 'warning')} {one.field}: {unknowns.words(one)}"
    noted = [one for one in estimate.assumptions if one.field in _ALWAYS_NOTED or _is_inferred(one)]
    for field, value, origin in noted:
        yield style.paint(f"  {field} = {one_line(str(value))}  ({one_line(origin)})", "dim")


# How the user can state a field that is unknown because the files can be read in several ways.
_HOW_TO_STATE = {
    "parallelism.engine": " (--with FILE names the launch file)",
    "parallelism.zero.stage": " (--with FILE names it)",
    "stack.transformers": " (--versions says which are in use)",
    "model.weights_dtype": " (`dtype` in the file says it)",
}
_ALWAYS_NOTED = ("device_bytes", "stack.unsloth")


def _is_inferred(one: Assumption) -> bool:
    """Whether the model's structure is inferred, or the card is the one that a job's header names."""
    if one.field == "hardware.gpu":
        return REQUESTED in one.origin
    return one.field == "model.architecture" and one.origin.startswith("inferred")


def _versions(run: RunReport, style: Style) -> Iterator[str]:
    """The framework versions that are stated or inferred (others are the newest), each with its origin."""
    stated = [f"{package} {version} ({one_line(origin)})" for package, version, origin in run.versions]
    if stated:
        yield style.paint(f"  with {', '.join(stated)}", "dim")
