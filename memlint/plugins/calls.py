"""Calls into plug-ins: their errors are reported as theirs, and what they print stays out of reports.

Every function that a plug-in hands over is wrapped once, when it is registered; memlint's own never are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stdout
from functools import wraps
from types import SimpleNamespace
from typing import Any

from memlint.expressions.facts import Facts
from memlint.findings import Edit
from memlint.formats.base import Context, Parsed, Recognition
from memlint.plugin_registry import Fault
from memlint.report.model import Report
from memlint.ruleset.rule import Hit
from memlint.run import Run
from memlint.source.document import Document

CONFIDENCES = ("certain", "likely", "unsure", "no")


def called(plugin: str, name: str, function: Callable[..., Any], *values: Any) -> Any:
    """Calls a plug-in's function and returns its result. Raises Fault for any error in it, sys.exit included."""
    try:
        with redirect_stdout(sys.stderr):
            return function(*values)
    except Fault:
        raise
    except (Exception, SystemExit) as error:
        raise Fault(f"plug-in {plugin}, `{name}`: {describe_error(error)}") from error


def describe_error(error: BaseException) -> str:
    """An error in a plug-in's code in words, with its place."""
    if isinstance(error, SystemExit):
        return f"it ends Python: sys.exit({error.code!r}){place(error)}"
    return f"{type(error).__name__}: {error}{place(error)}"


def place(error: BaseException) -> str:
    """The file and line where the plug-in's own code failed."""
    trace, found = error.__traceback__, ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "importlib" not in file and not trace.tb_frame.f_globals.get("__name__", "").startswith("memlint."):
            found = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def check_of(plugin: str, check: Callable[[Facts], Iterable[Hit]]) -> Callable[[Facts], Iterable[Hit]]:
    """A rule's `check`, wrapped: it returns all hits or raises Fault."""

    @wraps(check)
    def checked(facts: Facts) -> list[Hit]:
        hits = called(plugin, "check", lambda: list(check(facts)))
        for hit in hits:
            if not isinstance(hit, Hit):
                raise _wrong_answer(plugin, "check", "yields", hit, "memlint.ruleset.rule.Hit")
            if not isinstance(hit.message, str) or not isinstance(hit.at, str) or not isinstance(hit.data, Mapping):
                raise _wrong_answer(plugin, "check", "yields", hit, "a Hit of texts and a mapping")
        return hits  # type: ignore[no-any-return]

    return checked


def format_of(plugin: str, module: Any) -> SimpleNamespace:
    """A format, wrapped: its functions return what `memlint.formats.base.Format` requires or raise Fault."""

    def recognise(document: Document) -> Recognition:
        answer = called(plugin, "recognise", module.recognise, document)
        if not isinstance(answer, Recognition) or answer.confidence not in CONFIDENCES:
            raise _wrong_answer(plugin, "recognise", "gives", answer, f"a Recognition that is {', '.join(CONFIDENCES)}")
        return answer

    def parse(document: Document, context: Context) -> Parsed:
        answer = called(plugin, "parse", module.parse, document, context)
        if not isinstance(answer, Parsed) or answer.format != module.NAME or not answer.documents:
            raise _wrong_answer(
                plugin, "parse", "gives", answer, f"a Parsed of format {module.NAME!r} with its documents"
            )
        if not all(isinstance(run, Run) for run in answer.runs):
            raise _wrong_answer(plugin, "parse", "gives", answer.runs, "runs that are memlint.run.Run")
        return answer

    def edits(parsed: Parsed, run: Run, changes: Mapping[str, Any]) -> tuple[Edit, ...] | None:
        answer = called(plugin, "edits", module.edits, parsed, run, changes)
        if answer is not None and not (isinstance(answer, tuple) and all(isinstance(one, Edit) for one in answer)):
            raise _wrong_answer(plugin, "edits", "gives", answer, "None or a tuple of memlint.findings.Edit")
        return answer

    names = {"NAME": module.NAME, "DIALECT": module.DIALECT, "SCHEMA": module.SCHEMA}
    if hasattr(module, "reads_releases"):
        names["reads_releases"] = lambda run: bool(called(plugin, "reads_releases", module.reads_releases, run))
    return SimpleNamespace(**names, recognise=recognise, parse=parse, edits=edits)


def output_of(plugin: str, render: Callable[[Report], str]) -> Callable[[Report], str]:
    """An output's `render`, wrapped: it returns a text or raises Fault."""

    def rendered(report: Report) -> str:
        answer = called(plugin, "render", render, report)
        if not isinstance(answer, str):
            raise _wrong_answer(plugin, "render", "gives", answer, "a text")
        return answer

    return rendered


def _wrong_answer(plugin: str, name: str, does: str, answer: object, wanted: str) -> Fault:
    return Fault(f"plug-in {plugin}, `{name}` {does} {str(answer)[:80]!r} ({type(answer).__name__}), not {wanted}")
