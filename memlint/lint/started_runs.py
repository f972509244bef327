"""What is said of one run at two places: at the command or script that starts it, and at the program or config started.

A script knows the launcher, the GPUs and the card, so that the figures of a config which it starts as it stands are
shown at the script, once. Findings about values are shown where the value is.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from memlint.findings import Finding
from memlint.report.model import FileReport, RunReport, location_key
from memlint.rule_groups import OF_FIGURES


def without_runs_of_scripts(reports: Sequence[FileReport]) -> Iterator[FileReport]:
    """The reports without runs of configs that a script among them starts as they stand, and what is said of their
    figures.

    The script's run is the same one, with the launcher, the GPUs and the card that the script names; what is found in
    it points to the config as well.
    """
    configs = _started_by_scripts(reports)
    for report in reports:
        others = configs.difference(report.starts)
        if not others:
            yield report
            continue
        findings = (item for item in report.findings if not _is_of_figures(item, report, others))
        runs = (run for run in report.runs if run.path not in others)
        yield report._replace(findings=tuple(findings), runs=tuple(runs))


def _started_by_scripts(reports: Sequence[FileReport]) -> frozenset[str]:
    """The configs all of whose runs are those of scripts that start them as they stand."""
    trained: dict[str, set[tuple[str | None, str]]] = {}
    for report in reports:
        for config in report.starts:
            trained.setdefault(config, set()).update(report.trains)
    return frozenset(
        report.path for report in reports if report.trains and trained.get(report.path, set()).issuperset(report.trains)
    )


def _is_of_figures(item: Finding, report: FileReport, configs: Collection[str]) -> bool:
    """Whether a finding is about the figures of a run of one of these configs."""
    return item.rule.startswith(OF_FIGURES) and bool({report.path, item.location.path} & set(configs))


def commands_of(report: FileReport) -> Iterator[str]:
    """The places of the commands, in other files, that a file's findings hold for."""
    if report.findings:
        launched = (run.launched for run in report.runs if run.launched and run.path == report.path)
        yield from (place for place in chain(launched, report.commanded) if file_of(place) != report.path)


def reported_twice(reports: Iterable[FileReport], found: Collection[Finding]) -> set[tuple[object, ...]]:
    """The location keys of findings to drop, because one about the same fact stands at a command or at its program.

    If a command has no word for the value, its finding is dropped, which would point to the command's beginning; the
    program's points to the value. Findings about figures are dropped at a program that commands alone start: they stay
    at these, which know the launcher.
    """
    reports = list(reports)
    files = {report.path: report for report in reports}
    at_line: dict[str, list[Finding]] = {}
    for item in found:
        at_line.setdefault(_line_of(item), []).append(item)
    repeated: set[tuple[object, ...]] = set()
    for report in reports:
        repeated |= _said_of_called_scripts(report, files)
        own = [item for item in report.findings if item.location.path == report.path]
        at_command = [other for place in commands_of(report) for other in at_line.get(place, ())]
        said = {(item.rule, item.message) for item in own}
        repeated |= {location_key(other) for other in at_command if (other.rule, other.message) in said}
        kept = {(other.rule, other.message) for other in at_command}
        started = _started_elsewhere(report, files)
        if started and started.issuperset(report.trains):
            figures = (item for item in own if item.rule.startswith(OF_FIGURES))
            repeated |= {location_key(item) for item in figures if (item.rule, item.message) not in kept}
    return repeated


def _said_of_called_scripts(report: FileReport, files: Mapping[str, FileReport]) -> set[tuple[object, ...]]:
    """The location keys of findings at a line of a script that calls another script, which has the same finding."""
    found: set[tuple[object, ...]] = set()
    for line, name in report.calls:
        others = (one for path, one in files.items() if posixpath.basename(path) == name and path != report.path)
        said = {(item.rule, item.message) for other in others for item in other.findings}
        own = (item for item in report.findings if item.location.line == line and item.location.path == report.path)
        found |= {location_key(item) for item in own if (item.rule, item.message) in said}
    return found


def _started_elsewhere(report: FileReport, files: Mapping[str, FileReport]) -> set[tuple[str | None, str]]:
    """What the files train whose commands start a program: the model and the purpose of each of their runs."""
    others = (files.get(file_of(place)) for place in report.commanded)
    return {one for file in others if file is not None and file.path != report.path for one in file.trains}


def _line_of(item: Finding) -> str:
    return f"{item.location.path}:{item.location.line}"


def file_of(place: str) -> str:
    """The file of a place such as "README.md:12"."""
    return place.rpartition(":")[0]


def shown_runs(report: FileReport, others: Mapping[str, FileReport]) -> Iterator[RunReport]:
    """The runs to show under a file. A run that a script takes from a config is shown under the config, and one that a
    command starts under the command, if that was linted too and has such a run."""
    started = _started_elsewhere(report, others)
    for run in report.runs:
        is_elsewhere = run.path != report.path and run.path in others and others[run.path].runs
        if not is_elsewhere and not (started and (run.model.id, run.purpose) in started):
            yield run
