"""Turns an exception in memlint or in a plug-in into a finding on the file (MEM000)."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

import memlint.plugin_registry as extensions
from memlint.findings import Finding, Location
from memlint.rule_groups import INTERNAL_ERROR


def internal_error(place: Location, error: BaseException, what: str, culprit: str = "memlint") -> Finding:
    """An exception in memlint or a plug-in (`culprit`) as a finding; its `data` has the stack frames for a bug report.

    `what`: when it happened, for the message: "while it read this file".
    """
    error_text = f"{type(error).__name__}: {error}"
    if isinstance(error, extensions.Fault):
        error_text, culprit, error = str(error), "a plug-in", error.__cause__ or error
    message = f"memlint failed {what}: {error_text}. This is a bug in {culprit}, not in the file"
    report = "\n".join(_frames(error.__traceback__))
    return Finding(
        rule=INTERNAL_ERROR,
        name="internal/error",
        severity="error",
        message=message,
        location=place,
        key=f"{INTERNAL_ERROR}:{type(error).__name__}",
        data={"report": report},
    )


def _frames(trace: TracebackType | None) -> Iterable[str]:
    while trace is not None:
        code = trace.tb_frame.f_code
        inside = code.co_filename.replace("\\", "/").rpartition("/memlint/")
        yield f"{inside[2] if inside[1] else code.co_filename}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
