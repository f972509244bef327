"""Bytes through the whole of `check`, in this process."""

from __future__ import annotations

from functools import cache

from memlint.hardware import find
from memlint.lint.linter import Job, Linter
from memlint.lint.outside_facts import Sources
from memlint.report.model import FileReport


@cache
def _first() -> Linter:
    return Linter(Job(Sources()))


def lint(data: bytes, name: str = "config.yaml", fixes: bool = False) -> FileReport:
    """The report of a file with these bytes, as if it lay in the working directory."""
    given = Sources(gpu=find("RTX4090"), gpus=2, isolated=True)
    linter = Linter(Job(given, fixes=fixes, contents=((name, data),)))
    _first().rules()
    linter._rules = _first()._rules  # read once for all
    return linter.report(name)


def crashes(report: FileReport) -> list[str]:
    """What memlint says of its own mistakes."""
    return [f"{item.message}\n{item.data['report']}" for item in report.findings if item.rule == "MEM000"]
