"""Bytes through the whole of `check`, in this process."""

from __future__ import annotations

from functools import cache

from memlint.hardware import find
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.report.model import FileReport


@cache
def _first() -> Linter:
    return Linter(LintRequest(StatedFacts()))


def lint(data: bytes, name: str = "config.yaml", fixes: bool = False) -> FileReport:
    """The report of a file with these bytes, as if it lay in the working directory."""
    given = StatedFacts(gpu=find("RTX4090"), gpus=2, isolated=True)
    linter = Linter(LintRequest(given, fixes=fixes, contents=((name, data),)))
    _first().rules.rules()
    linter.rules._rules = _first().rules._rules  # read once for all
    return linter.report_file(name)


def crashes(report: FileReport) -> list[str]:
    """What memlint says of its own mistakes."""
    return [f"{item.message}\n{item.data['report']}" for item in report.findings if item.rule == "MEM000"]
