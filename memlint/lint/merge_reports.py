"""Merges the reports of single files, so that each finding appears once, under the file that it points to."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from memlint._record import NamedTuple
from memlint.findings import SEVERITIES, Finding
from memlint.lint.report_file import LintedFile
from memlint.lint.suppress import today
from memlint.report.model import FileReport, RunReport, location_key
from memlint.suppressions.apply import waiver_findings
from memlint.suppressions.waiver import Waiver

_NAMES = r"`[^`]*`"  # the keys, files and models that a message names
# About the figures of a run, which depend on what launches it.
_RULES_OF_FIGURES = ("MEM", "OFF", "PAR", "CKP", "LOS", "ATT", "EVA001", "EVA002", "OPT001", "SAV001", "PRE003")
_SCRIPT_PHRASE = r", where \S+ passes this value on$"  # a part of messages of formats/trainer/issues.py
MANY = 256  # more reports than this are stored packed (lint.packed_reports)


class MergedFiles(NamedTuple):
    """The merged reports, and the waivers (suppressions in settings) of all files.

    `waivers`: those that apply to at least one file. `used`: those that suppressed a finding. `require_reason`: whether
    the settings of a file with waivers require a reason for each.
    """

    reports: Sequence[FileReport]
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()
    require_reason: bool = False


def merge_files(files: Iterable[LintedFile], number: int) -> MergedFiles:
    """Merges the reports of about `number` files. `files` is consumed one by one."""
    recorder = _WaiverRecorder()
    reports = merge_reports(recorder.reports(files), number)
    return MergedFiles(reports, tuple(recorder.waivers), frozenset(recorder.used), recorder.require_reason)


class _WaiverRecorder:
    """Records the waivers of each file while its report passes through."""

    def __init__(self) -> None:
        self.waivers: dict[Waiver, None] = {}
        self.used: set[Waiver] = set()
        self.require_reason = False

    def reports(self, files: Iterable[LintedFile]) -> Iterator[FileReport]:
        for file in files:
            self.waivers.update(dict.fromkeys(file.waivers))
            self.used.update(file.used)
            self.require_reason = self.require_reason or bool(file.waivers and file.require_reason)
            yield file.report


def merge_reports(reports: Iterable[FileReport], number: int = 0) -> Sequence[FileReport]:
    """The reports with each finding once, under the file that it points to. `number`: about how many reports there are.

    A DeepSpeed JSON is linted alone and through every YAML that names it. Of equal findings the one with more related
    places and fixes is kept. A file that has no report yet, but is pointed to by a finding, gets one right after the
    report of that finding.
    """
    if number <= MANY:
        return _merge_at_once(reports)
    from memlint.lint.packed_reports import PackedSequence  # many files

    order: dict[str, None] = {}
    groups = _Groups()
    packed = PackedSequence[FileReport]()
    for number, report in enumerate(reports):
        pointed = {item.location.path for item in report.findings} | {run.path for run in report.runs}
        pointed -= {report.path}
        commands = {_file_of(place) for place in (*_commands_of(report), *report.commanded)} - {report.path}
        together = pointed | commands | set(report.starts)
        if together or report.path in order or report.path in groups.group_of:
            groups.join(report.path, together)
        else:
            (report,) = _merge_at_once((report,))
        groups.last[report.path] = number
        order |= dict.fromkeys((report.path, *sorted(pointed)))
        packed.append(report)
    return PackedSequence(_merged_by_group(packed, order, groups)) if groups.group_of else packed


class _Groups:
    """Files that must be merged together, as a union-find: those whose findings point to each other or that have
    several reports.

    `group_of`: the parent of each such file; the root, its own parent, stands for the group. `last`: the index of the
    last report of each file.
    """

    def __init__(self) -> None:
        self.group_of: dict[str, str] = {}
        self.last: dict[str, int] = {}

    def of(self, path: str) -> str:
        """The root of the group of `path`."""
        while (above := self.group_of[path]) != path:
            self.group_of[path] = path = self.group_of[above]
        return path

    def join(self, path: str, others: Iterable[str]) -> None:
        """Puts files into one group."""
        group = self.of(self.group_of.setdefault(path, path))
        for other in others:
            self.group_of[self.of(self.group_of.setdefault(other, other))] = group

    def ends(self) -> Mapping[str, int]:
        """The index of the last report of each group, by the group's root."""
        found: dict[str, int] = {}
        for path in self.group_of:
            group = self.of(path)
            found[group] = max(found.get(group, 0), self.last.get(path, 0))
        return found


def as_sequence(reports: Iterable[FileReport], number: int) -> Sequence[FileReport]:
    """`reports` (about `number` of them) as a sequence that can be iterated more than once."""
    if number <= MANY:
        return tuple(reports)
    from memlint.lint.packed_reports import PackedSequence  # many files

    return PackedSequence(reports)


def _merged_by_group(packed: Iterable[FileReport], order: Iterable[str], groups: _Groups) -> Iterator[FileReport]:
    """The reports in `order`, each group merged as soon as its last report was read.

    Few reports wait at a time: the files of a group often lie in one folder.
    """
    ends = groups.ends()
    waiting: dict[str, list[FileReport]] = {}
    ready: dict[str, FileReport] = {}
    left = iter(order)
    wanted = next(left, None)
    for number, report in enumerate(packed):
        if report.path in groups.group_of:
            group = groups.of(report.path)
            waiting.setdefault(group, []).append(report)
            if number == ends[group]:
                ready.update((merged.path, merged) for merged in _merge_at_once(waiting.pop(group)))
        else:
            ready[report.path] = report
        while wanted in ready:
            yield ready.pop(wanted)
            wanted = next(left, None)


def _merge_at_once(reports: Iterable[FileReport]) -> tuple[FileReport, ...]:
    best: dict[tuple[object, ...], Finding] = {}
    own: set[tuple[object, ...]] = set()  # the findings of a file's own report, which come before those of others
    order: dict[str, FileReport] = {}
    given = tuple(reports)
    for first, report in zip(given, _without_runs_of_scripts(given), strict=True):
        for path in (report.path, *sorted({item.location.path for item in first.findings})):
            previous = order.setdefault(path, FileReport(path, "", ()))
            latest = report if path == report.path else previous
            order[path] = latest._replace(texts={**previous.texts, **report.texts} if previous.texts else report.texts)
        for item in report.findings:
            key = location_key(item)
            best[key] = max(best[key], item, key=_richness) if key in best else item
            own |= {key} if item.location.path == report.path else set()
    by_path: dict[str, list[Finding]] = {path: [] for path in order}
    repeated = _reported_twice(order.values(), best.values())
    found = (item for key, item in best.items() if key not in repeated)
    own_first = sorted(found, key=lambda item: location_key(item) not in own)
    for item in _without_repetitions(own_first):
        by_path[item.location.path].append(item)
    return tuple(
        report._replace(findings=tuple(sorted(by_path[path], key=location_key)), runs=tuple(_shown_runs(report, order)))
        for path, report in order.items()
    )


def _without_runs_of_scripts(reports: Sequence[FileReport]) -> Iterator[FileReport]:
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
    return item.rule.startswith(_RULES_OF_FIGURES) and bool({report.path, item.location.path} & set(configs))


def _commands_of(report: FileReport) -> Iterator[str]:
    """The places of the commands, in other files, that a file's findings hold for."""
    if report.findings:
        launched = (run.launched for run in report.runs if run.launched and run.path == report.path)
        yield from (place for place in chain(launched, report.commanded) if _file_of(place) != report.path)


def _reported_twice(reports: Iterable[FileReport], found: Collection[Finding]) -> set[tuple[object, ...]]:
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
        own = [item for item in report.findings if item.location.path == report.path]
        at_command = [other for place in _commands_of(report) for other in at_line.get(place, ())]
        said = {(item.rule, item.message) for item in own}
        repeated |= {location_key(other) for other in at_command if (other.rule, other.message) in said}
        kept = {(other.rule, other.message) for other in at_command}
        started = _started_elsewhere(report, files)
        if started and started.issuperset(report.trains):
            figures = (item for item in own if item.rule.startswith(_RULES_OF_FIGURES))
            repeated |= {location_key(item) for item in figures if (item.rule, item.message) not in kept}
    return repeated


def _started_elsewhere(report: FileReport, files: Mapping[str, FileReport]) -> set[tuple[str | None, str]]:
    """What the files train whose commands start a program: the model and the purpose of each of their runs."""
    others = (files.get(_file_of(place)) for place in report.commanded)
    return {one for file in others if file is not None and file.path != report.path for one in file.trains}


def _line_of(item: Finding) -> str:
    return f"{item.location.path}:{item.location.line}"


def _file_of(place: str) -> str:
    """The file of a place such as "README.md:12"."""
    return place.rpartition(":")[0]


def _without_repetitions(found: Iterable[Finding]) -> Iterator[Finding]:
    """Drops findings that repeat another one of the same rule and line.

    The same fact is found several times because a file is linted alone and also through each config, command and
    script that names it. What stays:

    - the longer one where a message begins with another one: a config knows more about the run than its DeepSpeed JSON;
    - the more severe one at the same location, for the same reason;
    - the first of several runs: of the commands that name the file, or of a loop over models;
    - the first of several scripts that pass the same value on.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for item in found:
        groups.setdefault((item.location.path, item.location.line, item.rule), []).append(item)
    for group in groups.values():
        if len(group) == 1:  # the usual case
            yield group[0]
            continue
        full = [item for item in group if not any(_supersedes(one, item) for one in group)]
        yield from _first_of_each_script_value(_first_of_each_run(full))


def _first_of_each_run(found: Iterable[Finding]) -> Iterable[Finding]:
    """The findings without those that differ from an earlier one at the same location only in figures and verdict,
    which each run has of its own."""
    first: dict[tuple[object, ...], Finding] = {}
    for item in found:
        names = tuple(re.findall(_NAMES, item.message))
        first.setdefault((item.location, item.severity, item.key, names), item)
    return first.values()


def _first_of_each_script_value(group: Iterable[Finding]) -> Iterator[Finding]:
    """The findings without those that differ from an earlier one only in the script that passes the value on."""
    facts: set[str] = set()
    for item in group:
        fact = re.sub(_SCRIPT_PHRASE, "", item.message)
        if fact == item.message or fact not in facts:
            yield item
        if fact != item.message:
            facts.add(fact)


def _supersedes(finding: Finding, other: Finding) -> bool:
    """Whether `finding` makes `other` superfluous: its message is that of `other` with more after it, or it is more
    severe at the same location. Equal messages are two mistakes on one line: both stay."""
    if finding.message != other.message and finding.message.startswith(other.message):
        return True
    is_same_place = finding.location == other.location
    return is_same_place and SEVERITIES.index(finding.severity) > SEVERITIES.index(other.severity)


def _shown_runs(report: FileReport, others: Mapping[str, FileReport]) -> Iterator[RunReport]:
    """The runs to show under a file. A run that a script takes from a config is shown under the config, and one that a
    command starts under the command, if that was linted too and has such a run."""
    started = _started_elsewhere(report, others)
    for run in report.runs:
        is_elsewhere = run.path != report.path and run.path in others and others[run.path].runs
        if not is_elsewhere and not (started and (run.model.id, run.purpose) in started):
            yield run


def _richness(item: Finding) -> tuple[int, bool]:
    return len(item.related), bool(item.fixes)


def with_waiver_findings(merged: MergedFiles) -> Sequence[FileReport]:
    """The reports, with findings about unused and expired waivers. Only after the last file is it known which are."""
    if not merged.waivers:
        return merged.reports
    found: dict[str, list[Finding]] = {}
    for item in waiver_findings(merged.waivers, merged.used, today(), merged.require_reason):
        place = item.location._replace(path=name_from_here(item.location.path))
        found.setdefault(place.path, []).append(item._replace(location=place))
    more = tuple(FileReport(path, "", tuple(items)) for path, items in sorted(found.items()))
    return as_sequence(chain(merged.reports, more), len(merged.reports)) if more else merged.reports


def name_from_here(path: str) -> str:
    """`path` relative to the working directory; unchanged if it lies outside."""
    relative = os.path.relpath(path).replace(os.sep, "/")
    return path if relative.startswith("..") else relative
