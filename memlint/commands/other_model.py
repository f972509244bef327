"""`--model` beside files: the model of those that name none; `estimate` and `explain` put it into the others too."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from memlint.commands import options
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest
from memlint.question.changes import Change, changed_contents
from memlint.question.models import known_model
from memlint.ruleset.engine import Analysis

FIELD = "model.name"


def with_its_model(given: options.Options, request: LintRequest, paths: Iterable[str]) -> LintRequest:
    """The request with each file as if it named the model of `--model`; as it is without one.

    Raises UsageError for a model that nobody knows, and where a file names its own in a way that no edit replaces.
    """
    if not given.model:
        return request
    linter = Linter(request)
    name = known_model(given.model, given.hub, given.exact) if not _maps_names(linter, paths) else given.model
    contents = dict(request.contents)
    for analysis, _ in _with_own_model(linter, paths, name):
        contents |= changed_contents(analysis, (Change(FIELD, name, f"--model {given.model}"),))
    return request._replace(contents=tuple(contents.items()))


def refuse_own_model(given: options.Options, request: LintRequest, paths: Iterable[str]) -> None:
    """Raises UsageError where `--model` stands beside a file by its name that names another model."""
    if not given.model or any(os.path.isdir(path) for path in given.paths or ["."]):
        return
    for analysis, own in _with_own_model(Linter(request), paths, given.model):
        raise UsageError(
            f"--model {given.model}: {analysis.document.path} names its own model, {own}; write the other into the "
            f"file, or see its memory: memlint estimate {analysis.document.path} --model {given.model}"
        )


def _with_own_model(linter: Linter, paths: Iterable[str], name: str) -> Iterator[tuple[Analysis, str]]:
    """The analyses whose run is of a model that a file names, and that is not `name`."""
    for path in paths:
        for analysis in linter.analyse(path).analyses:
            for run in analysis.runs[:1]:
                place = run.origins.get(FIELD)
                if place is not None and place.pointer and isinstance(run.model.name, str) and run.model.name != name:
                    yield analysis, run.model.name


def _maps_names(linter: Linter, paths: Iterable[str]) -> bool:
    """Whether settings say what a model's name means: then names are not only the catalog's."""
    return any(linter.settings.of(os.path.abspath(path)).models for path in paths)
