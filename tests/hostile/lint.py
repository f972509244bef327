"""Bytes through the whole of `check`, in this process."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from memlint.hardware import find
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.report.model import FileReport


@cache
def _first() -> Linter:
    return Linter(LintRequest(StatedFacts()))


@cache
def _empty() -> TemporaryDirectory[str]:
    """A folder without a repository around it: else each file would be searched for in memlint's own scripts."""
    return TemporaryDirectory()


def lint(data: bytes, name: str = "config.yaml", fixes: bool = False) -> FileReport:
    """The report of a file with these bytes, as if it lay alone in a folder."""
    given = StatedFacts(gpu=find("RTX4090"), gpus=2, isolated=True)
    path = str(Path(_empty().name, name))
    linter = Linter(LintRequest(given, fixes=fixes, contents=((path, data),), cwd=_empty().name))
    _first().rules.rules()
    linter.rules._rules = _first().rules._rules  # read once for all
    return linter.report_file(path)


def crashes(report: FileReport) -> list[str]:
    """What memlint says of its own mistakes."""
    return [f"{item.message}\n{item.data['report']}" for item in report.findings if item.rule == "MEM000"]
