"""Answers a question: makes the files that describe its run, and lints them from memory like any others."""

from __future__ import annotations

import json
from typing import Any

from memlint._record import NamedTuple
from memlint.findings import Finding
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest, StatedFacts
from memlint.question.files import files_of
from memlint.question.model import Question, QuestionFiles
from memlint.question.models import FOLDER
from memlint.report.model import FileReport, RunReport
from memlint.repository.workspace import in_memory
from memlint.run import Run


class Answer(NamedTuple):
    """`question`: as it was asked. `files`: the files that describe its run. `report`: the report of these files.
    `neutral`: the `Run` that the report is about."""

    question: Question
    files: QuestionFiles
    report: FileReport
    neutral: Run

    @property
    def run(self) -> RunReport:
        """The run with its estimate: `run.estimate`."""
        return self.report.runs[0]

    @property
    def refused(self) -> tuple[Finding, ...]:
        """The reasons why the framework would refuse the run; empty if it would start."""
        return tuple(one for one in self.report.findings if one.severity == "error" and one.rule in self.run.stopped_by)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The warnings, except those about memory, which the table shows: they are about length, kernels, precision."""
        found = (one for one in self.report.findings if one.severity == "warning" and one not in self.refused)
        return tuple(one for one in found if not one.name.startswith("memory/"))


def answer(question: Question, facts: StatedFacts = StatedFacts(isolated=True)) -> Answer:  # noqa: B008 - frozen
    """The answer to a question. Reads no file except in the model's own folder. Raises UsageError.

    `facts`: versions, use of the hub, and the settings file. Settings of the working directory do not apply unless
    `facts.settings_file` names them.
    """
    return answer_with(question, facts, None)[0]


def answer_with(question: Question, facts: StatedFacts, like: Linter | None) -> tuple[Answer, Linter]:
    """The answer, and the linter that gave it. `like`: an earlier linter, whose rules are reused."""
    files = files_of(question, facts.hub, facts.exact)
    request = LintRequest(facts._replace(isolated=facts.settings_file is None), fixes=False, cwd="/", assumptions=True)
    linter = Linter(request, in_memory(files.contents, _models(files)), like=like)
    analysed = linter.analyse(files.main)
    return Answer(question, files, linter.report(analysed).report, analysed.analyses[0].runs[0]), linter


def _models(files: QuestionFiles) -> dict[str, Any]:
    """The model whose config.json is among the files, by the name that the config has for it."""
    text = files.contents.get(f"{FOLDER}/config.json")
    return {FOLDER: json.loads(text)} if text else {}
