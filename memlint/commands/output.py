"""Writes reports: each requested format to its file or to standard output."""

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
from memlint.repository.files.discovery import FoundFile

STYLED = ("text",)
SUMMARY_BYTES = 1_000_000
CHUNK = 1 << 16  # characters that are written at once


def write(
    report: Report, pairs: tuple[tuple[str, str | None], ...], colour: bool | None, found: Iterable[FoundFile]
) -> None:
    """Writes a report in each format of `pairs` (format, file; None: standard output).

    `found`: the files that were linted; a report may not overwrite them. Raises UsageError if a file cannot be
    written.
    """
    protected = protected_paths(report.files, found) if any(path is not None for _, path in pairs) else frozenset()
    for name, path in pairs:
        if path is None:
            for piece in _in_chunks(rendered(report, name, colour)):
                to_stdout(piece)
        else:
            to_file(rendered(report, name, False, plain=True), path, protected)
        if name == "github":
            _job_summary(report)


def _job_summary(report: Report) -> None:
    """Appends the report to the job summary of GitHub Actions, which shows only ten annotations of a kind per step.

    A summary may have 1 MiB (docs.github.com, "Workflow commands: Adding a job summary"); a longer one is cut.
    """
    path = os.environ.get("GITHUB_STEP_SUMMARY")
    if not path or not any(file.runs or file.findings for file in report.files):
        return
    data = "".join(rendered(report, "markdown", False, plain=True)).encode("utf-8", "replace")
    if len(data) > SUMMARY_BYTES:
        data = data[: data.rfind(b"\n", 0, SUMMARY_BYTES)] + b"\n\n(cut here: --format json has the rest)\n"
    try:
        with open(path, "ab") as stream:  # appends: other commands of the step write to it, too
            stream.write(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def rendered(report: Report, name: str, colour: bool | None, plain: bool = False) -> Iterable[str]:
    """The text of a report in one format, in pieces: many from a module with `pieces`, else one."""
    if name in extensions.outputs:
        return (_plugin_output(name, report),)
    module = import_module(f"memlint.report.{OUTPUTS[name]}")
    style = (style_for(sys.stdout, colour=colour),) if name in STYLED and not plain else ()
    if hasattr(module, "pieces"):
        found: Iterable[str] = module.pieces(report, *style)
        return found
    return (module.render(report, *style),)


def _plugin_output(name: str, report: Report) -> str:
    try:
        return extensions.outputs[name](report)
    except extensions.Fault as error:
        raise UsageError(f"--format {name}: {error}") from None


def _in_chunks(pieces: Iterable[str]) -> Iterator[str]:
    """The same text joined into chunks, to save system calls."""
    buffered: list[str] = []
    size = 0
    for piece in pieces:
        buffered.append(piece)
        size += len(piece)
        if size >= CHUNK:
            yield "".join(buffered)
            buffered, size = [], 0
    yield "".join(buffered)


def to_stdout(text: str) -> None:
    """Writes UTF-8 to standard output, whatever the locale. Raises UsageError, for example on a full disk."""
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


def to_screen(text: str, breaks: bool = True) -> None:
    """`to_stdout`, with lines broken at the width of the terminal, if there is one. `breaks`: not for JSON."""
    style = style_for(sys.stdout)
    if breaks and style.width:
        from memlint.report.wrap import wrapped

        text = wrapped(text, style.width)
    to_stdout(text)


def protected_paths(files: Iterable[FileReport], found: Iterable[FoundFile]) -> frozenset[str]:
    """Real paths that no report may overwrite: recognised configs, files with findings, and files named by the user.

    Any other JSON file in a linted folder may be the previous run's report, which may be overwritten.
    """
    reported = (file.path for file in files if file.format or file.findings or not file.readable)
    return frozenset(map(os.path.realpath, chain(reported, (item.path for item in found if item.named))))


def to_file(pieces: Iterable[str], path: str, protected: frozenset[str] = frozenset()) -> None:
    """Writes a file in UTF-8, the whole text or nothing. Raises UsageError, also for a path among `protected`."""
    from memlint.atomic_files import NotWritten, write_text

    if protected and os.path.realpath(path) in protected:
        raise UsageError(f"{path}: the report would overwrite a file that was linted")
    try:
        write_text(path, pieces)
    except NotWritten as error:
        raise UsageError(str(error)) from None
