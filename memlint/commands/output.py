"""Writes a report in each format that was asked for."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import memlint._extensions as extensions
from memlint.commands import CommandError
from memlint.report.model import Report
from memlint.report.outputs import OUTPUTS
from memlint.report.terminal import style_for

STYLED = ("text",)
SUMMARY_BYTES = 1_000_000


def write(report: Report, pairs: tuple[tuple[str, str | None], ...], colour: bool | None, inputs: set[str]) -> None:
    """Every format to its file or to standard output. Raises CommandError where a file cannot be written."""
    for name, path in pairs:
        if path is None:
            to_stdout(rendered(report, name, colour))
        else:
            _to_file(rendered(report, name, False, plain=True), path, inputs)
        if name == "github":
            _job_summary(report)


def _job_summary(report: Report) -> None:
    """GitHub shows ten annotations of a kind a step; the summary of the job has room for all of them.

    A summary may have 1 MiB (docs.github.com, "Workflow commands: Adding a job summary"): what is longer is cut.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path or not any(file.runs or file.findings for file in report.files):
        return
    data = rendered(report, "markdown", False, plain=True).encode("utf-8", "replace")
    if len(data) > SUMMARY_BYTES:
        data = data[: data.rfind(b"\n", 0, SUMMARY_BYTES)] + b"\n\n(cut here: --format json has the rest)\n"
    try:
        with open(path, "ab") as stream:
            stream.write(data)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None


def rendered(report: Report, name: str, colour: bool | None, plain: bool = False) -> str:
    if name in extensions.outputs:
        return extensions.outputs[name](report)
    module = import_module(f"memlint.report.{OUTPUTS[name]}")
    if name in STYLED and not plain:
        text: str = module.render(report, style_for(sys.stdout, colour=colour))
        return text
    plain_text: str = module.render(report)
    return plain_text


def to_stdout(text: str) -> None:
    """UTF-8 whatever the locale says, so that output is the same everywhere. Raises CommandError on a full disk."""
    data = text.encode("utf-8", "replace")
    buffer = getattr(sys.stdout, "buffer", None)
    try:
        sys.stdout.flush()
        if buffer is None:
            sys.stdout.write(data.decode("utf-8"))
        else:
            buffer.write(data)
            buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"standard output: {error.strerror}") from None


def _to_file(text: str, path: str, inputs: set[str]) -> None:
    if os.path.realpath(path) in inputs:
        raise CommandError(f"{path}: the report would overwrite a file that was linted")
    try:
        with open(path, "w", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(text)
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}") from None
