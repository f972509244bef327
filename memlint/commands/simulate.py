"""`memlint simulate`: runs one real training step on fake tensors and compares it with the estimate."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from memlint.architectures.model import parameters
from memlint.commands import options
from memlint.commands.other_model import with_model_replaced
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.formats.base import Context
from memlint.lint.linter import Linter
from memlint.lint.summary import run_report
from memlint.memory.estimate import estimate
from memlint.memory.values import Estimate
from memlint.report import table
from memlint.report.card_figures import HOW_TO_READ
from memlint.report.model import PART
from memlint.report.progress import Busy
from memlint.report.terminal import Style, one_line, style_for
from memlint.report.units import gib
from memlint.ruleset.engine import Analysis
from memlint.run import Run, replace

_EXTRA = "simulate needs PyTorch, transformers and peft: pip install torch transformers accelerate peft ({})"


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(
        program,
        "Runs one training step of the real model on fake tensors (no GPU, no weights) and prints the table of\n"
        "`estimate`, the tensors alive at the peak by module, and the closed form beside it. Samples are text alone.",
        HOW_TO_READ,
    )
    options.add_paths(parser)
    parser.add_argument("--tensors", type=options.positive, default=12, metavar="N", help="groups of tensors to list")
    options.add_hardware(parser)
    options.add_settings(parser)
    options.add_colour(parser)
    given = parser.parse_args(arguments)
    if options.handle_info_flags(given):
        return 0
    files = options.config_files(given)
    linter = Linter(with_model_replaced(given, options.lint_request(given, fixes=False), [one.path for one in files]))
    style = style_for(sys.stdout, colour=given.colour)
    blocks, failed = [], False
    for found in files:
        for analysis in linter.analyse(found.path).analyses:
            workspace = linter.analyser.workspaces.of(found.path)
            context = linter.analyser.context_for(analysis.document, workspace)
            for one, closed in _own_runs(analysis):
                lines, simulated = _simulated(one, closed, given.tensors, style, context)
                blocks.append("\n".join(lines))
                failed = failed or not simulated
    to_screen("\n\n".join(blocks) + "\n" if blocks else "nothing to simulate: no training config among these files\n")
    return 2 if failed or not blocks else 0


def _own_runs(analysis: Analysis) -> Iterator[tuple[Run, Estimate]]:
    """The runs of a file with their estimates. A DeepSpeed or accelerate file is only a part of a run and has none."""
    pairs = zip(analysis.runs, analysis.estimates)
    return (pair for pair in pairs if pair[0].purpose != PART)


def _simulated(one: Run, closed: Estimate, most: int, style: Style, context: Context) -> tuple[list[str], bool]:
    """(the lines about one run, whether it could be simulated). `most`: groups of tensors to list."""
    try:
        with Busy("loading PyTorch"):
            from memlint.simulation import UnsupportedRun, simulate
            from memlint.simulation.as_estimate import estimate_of, tensor_lines
    except ImportError as error:
        raise UsageError(_EXTRA.format(error)) from None
    one, closed = _without_images(one, closed)
    try:
        with Busy(f"simulating {one_line(one.path)}"):
            step = simulate(one, config_of=lambda: _config_of(one, context))
    except UnsupportedRun as reason:
        return [table.title(run_report(one, closed), style), f"  not simulated: {reason}"], False
    found = estimate_of(step, one)
    lines = list(table.run_lines(run_report(one, found), style))
    lines += ["", *_comparison(found, closed), "", f"  alive at the peak ({step.peak_phase}):"]
    return lines + ["  " + line for line in tensor_lines(step, most)], True


def _without_images(one: Run, closed: Estimate) -> tuple[Run, Estimate]:
    """The run without images, and its estimate: the simulated step reads only text, so the estimate must, too."""
    if not (one.model.architecture and one.model.architecture.towers):
        return one, closed
    text = replace(one, {"sequence.images": 0})
    return text, estimate(text)


def _config_of(one: Run, context: Context) -> Mapping[str, Any] | None:
    """The config.json of the run's model; None unless it gives as many parameters as the run's architecture."""
    found = context.find_model(str(one.model.name or ""), one.path)
    same = found.architecture and parameters(found.architecture) == parameters(one.model.architecture)
    return found.config if same else None


def _comparison(found: Estimate, closed: Estimate) -> Iterator[str]:
    """A table of phases: simulated GiB, estimated GiB, and the difference in percent of the simulation."""
    closed_form = {phase.name: phase.allocated_bytes for phase in closed.phases}
    yield f"  {'GiB':17s}{'simulated':>10s}{'estimate':>10s}"
    for phase in found.phases:
        name = table.HEADINGS.get(phase.name, phase.name)
        if phase.name not in closed_form:
            yield f"  {name:17s}{gib(phase.allocated_bytes):>10s}{'-':>10s}"
            continue
        difference = 100 * (closed_form[phase.name] / phase.allocated_bytes - 1) if phase.allocated_bytes else 0.0
        yield f"  {name:17s}{gib(phase.allocated_bytes):>10s}{gib(closed_form[phase.name]):>10s}  {difference:+.2f} %"
    for missing in closed.unknown:
        yield f"  no estimate: {missing.field}: {missing.reason}"
