"""Writes a report in each format that was asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain

import memlint.plugin_registry as extensions
from memlint.errors import UsageError
from memlint.report.model import FileReport, Report
from memlint.report.outputs import OUTPUTS
from memlint.report.terminal import style_for
from memlint.repository.discovery import FoundFile

STYLED = ("text",)
SUMMARY_BYTES = 1_000_000
PIECE = 1 << 16  # characters that are written at once


def write(
    report: Report, pairs: tuple[tuple[str, str | None], ...], colour: bool | None, found: Iterable[FoundFile]
) -> None:
    """Every format to its file or to standard output. Raises UsageError where a file cannot be written.

    `found`: the files that were looked at.
    """
    kept = configs(report.files, found) if any(path is not None for _, path in pairs) else frozenset()
    for name, path in pairs:
        if path is None:
            for piece in _large(rendered(report, name, colour)):
                to_stdout(piece)
        else:
            to_file(rendered(report, name, False, plain=True), path, kept)
        if name == "github":
            _job_summary(report)


def _job_summary(report: Report) -> None:
    """GitHub shows ten annotations of a kind a step; the summary of the job has room for all of them.

    A summary may have 1 MiB (docs.github.com, "Workflow commands: Adding a job summary"): what is longer is cut.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path or not any(file.runs or file.findings for file in report.files):
        return
    data = "".join(rendered(report, "markdown", False, plain=True)).encode("utf-8", "replace")
    if len(data) > SUMMARY_BYTES:
        data = data[: data.rfind(b"\n", 0, SUMMARY_BYTES)] + b"\n\n(cut here: --format json has the rest)\n"
    try:
        with open(path, "ab") as stream:  # what other commands of the step wrote stays: no file of ours to replace
            stream.write(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def rendered(report: Report, name: str, colour: bool | None, plain: bool = False) -> Iterable[str]:
    """The report's text in pieces: many small ones from a module that has `pieces`, else one."""
    if name in extensions.outputs:
        return (_of_plugin(name, report),)
    module = import_module(f"memlint.report.{OUTPUTS[name]}")
    style = (style_for(sys.stdout, colour=colour),) if name in STYLED and not plain else ()
    if hasattr(module, "pieces"):
        found: Iterable[str] = module.pieces(report, *style)
        return found
    return (module.render(report, *style),)


def _of_plugin(name: str, report: Report) -> str:
    try:
        return extensions.outputs[name](report)
    except extensions.Fault as error:
        raise UsageError(f"--format {name}: {error}") from None


def _large(pieces: Iterable[str]) -> Iterator[str]:
    """The same text in pieces that are worth a call of the system each."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def to_stdout(text: str) -> None:
    """UTF-8 whatever the locale says, so that output is the same everywhere. Raises UsageError on a full disk."""
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
        raise UsageError(f"standard output: {error.strerror}") from None


def configs(files: Iterable[FileReport], found: Iterable[FoundFile]) -> frozenset[str]:
    """Real paths of what no report may overwrite: configs, what may be one, and what was asked for by name.

    A JSON file in a folder that is none of these may well be the last run's report.
    """
    told = (file.path for file in files if file.format or file.findings or not file.readable)
    return frozenset(map(os.path.realpath, chain(told, (item.path for item in found if item.named))))


def to_file(pieces: Iterable[str], path: str, kept: frozenset[str] = frozenset()) -> None:
    """UTF-8, the whole text or none of it. Raises UsageError, also for a path among `kept` (real paths)."""
    from memlint.atomic_files import NotWritten, write_text

    if kept and os.path.realpath(path) in kept:
        raise UsageError(f"{path}: the report would overwrite a file that was linted")
    try:
        write_text(path, pieces)
    except NotWritten as error:
        raise UsageError(str(error)) from None
