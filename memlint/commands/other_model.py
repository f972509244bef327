"""`--model` together with files: replaces the model of files that name none, or an unknown one.

`estimate` and `explain` also replace the model of files that name a known one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from memlint.commands import options
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.request import LintRequest
from memlint.question.changes import Change, changed_contents
from memlint.question.models import known_model
from memlint.ruleset.engine import Analysis
from memlint.run import UNKNOWN, Run

FIELD = "model.name"


def with_model_replaced(given: options.Options, request: LintRequest, paths: Iterable[str]) -> LintRequest:
    """The request in which each file names the model of `--model`; unchanged without `--model`.

    Raises UsageError if the model is unknown, or if a file names its own in a way that no edit can replace.
    """
    if not given.model:
        return request
    linter = Linter(request)
    name = known_model(given.model, given.hub, given.exact) if not _maps_names(linter, paths) else given.model
    contents, unknown = dict(request.contents), {}
    for analysis, run in _with_own_model(linter, paths, name):
        if _is_known(run):
            contents |= changed_contents(analysis, (Change(FIELD, name, f"--model {given.model}"),))
        else:
            unknown[str(run.model.name)] = name
    return _with_models(request, unknown)._replace(contents=tuple(contents.items()))


def with_model_for_unknown_names(given: options.Options, request: LintRequest, paths: Iterable[str]) -> LintRequest:
    """The request in which unknown model names mean the model of `--model`.

    Raises UsageError if a file that the user named itself names another model that is known.
    """
    if not given.model or any(os.path.isdir(path) for path in given.paths or ["."]):
        return request
    unknown = {}
    for analysis, run in _with_own_model(Linter(request), paths, given.model):
        if _is_known(run):
            raise UsageError(
                f"--model {given.model}: {analysis.document.path} names its own model, {run.model.name}; write the "
                f"other into the file, or see its memory: memlint estimate {analysis.document.path} "
                f"--model {given.model}"
            )
        unknown[str(run.model.name)] = given.model
    return _with_models(request, unknown)


def _with_models(request: LintRequest, unknown: Mapping[str, str]) -> LintRequest:
    return request._replace(facts=request.facts._replace(models=unknown)) if unknown else request


def _is_known(run: Run) -> bool:
    return run.model.architecture is not UNKNOWN


def _with_own_model(linter: Linter, paths: Iterable[str], name: str) -> Iterator[tuple[Analysis, Run]]:
    """(analysis, run) of each run whose model is named by a file and is not `name`."""
    for path in paths:
        for analysis in linter.analyse(path).analyses:
            for run in analysis.runs[:1]:
                place = run.origins.get(FIELD)
                if place is not None and place.pointer and isinstance(run.model.name, str) and run.model.name != name:
                    yield analysis, run


def _maps_names(linter: Linter, paths: Iterable[str]) -> bool:
    """Whether settings define model names (`models`), so that names are not only those of the catalog."""
    return any(linter.settings.of(os.path.abspath(path)).models for path in paths)
