"""The part that check, estimate and others share: options to files to file reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import NamedTuple

from memlint.checks.engine import Engine
from memlint.checks.rule import Rule, RuleError
from memlint.checks.rule_folder import ordered, read_folder
from memlint.checks.shipped import shipped
from memlint.commands import CommandError, options
from memlint.commands.facts import Sources, context_facts, settings_of, sources
from memlint.commands.hide import hidden
from memlint.commands.session import Outcome, Session
from memlint.commands.summary import run_report
from memlint.discovery import Found, discover
from memlint.findings import Finding
from memlint.report.model import FileReport, location_key
from memlint.selectors import is_chosen
from memlint.settings import FileSettings, is_in_force, severity_of


class Job(NamedTuple):
    """Everything a worker needs to lint a file: plain values, so that it can be sent to one."""

    given: Sources
    roots: tuple[str, ...] = (".",)
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    profile: str = ""
    preview: bool = False
    fixes: bool = True
    cwd: str = ""


def job(given: options.Options, fixes: bool = True) -> Job:
    """Raises CommandError for what cannot be meant."""
    return Job(
        sources(given),
        tuple(given.paths or ["."]),
        options.words(getattr(given, "select", [])),
        options.words(getattr(given, "ignore", [])),
        getattr(given, "profile", None) or "",
        getattr(given, "preview", False),
        fixes,
        os.getcwd(),
    )


class Linter:
    """Lints file after file; rules are read once, settings once a folder."""

    def __init__(self, what: Job) -> None:
        self.job = what
        self._rules: dict[tuple[str, ...], tuple[Rule, ...]] = {}
        self._engines: dict[tuple[object, ...], Engine] = {}
        self.session = Session(
            lambda path: self.engine(self.settings(path)),
            lambda document, workspace: context_facts(document, workspace, what.given),
            what.roots,
            what.cwd,
            what.given.hub,
        )

    def settings(self, path: str) -> FileSettings:
        """The settings of a file, with what the command line says of rules on top."""
        found = settings_of(os.path.join(self.session.cwd, path), self.job.given)
        if self.job.select:
            found = found._replace(select=self.job.select)
        return found._replace(
            ignore=(*found.ignore, *self.job.ignore),
            profile=self.job.profile or found.profile,
            preview=self.job.preview or found.preview,
        )

    def rules(self, folders: tuple[str, ...] = ()) -> tuple[Rule, ...]:
        """The shipped rules and those of `folders`. Raises CommandError for a broken one."""
        if folders not in self._rules:
            try:
                extra = [rule for folder in folders for rule in read_folder(folder)]
                self._rules[folders] = ordered([*shipped(), *extra]) if extra else shipped()
            except RuleError as error:
                raise CommandError(f"a rule cannot be used: {error}") from None
        return self._rules[folders]

    def engine(self, settings: FileSettings) -> Engine:
        key = (
            *(settings.rules_dirs, settings.select, settings.ignore, settings.profile, settings.preview),
            tuple(settings.severity.items()),
        )
        if key not in self._engines:
            rules = self.rules(settings.rules_dirs)
            chosen = (r for r in rules if is_in_force(settings, r.id, r.name, r.profiles, r.preview))
            self._engines[key] = Engine(tuple(chosen))
        return self._engines[key]

    def outcome(self, path: str, named: bool = True) -> Outcome:
        return self.session.lint(path, named, self.job.fixes)

    def report(self, path: str, named: bool = True) -> FileReport:
        """One file's findings after suppressions, and its runs."""
        outcome = self.outcome(path, named)
        settings = self.settings(path)
        shown, suppressed = hidden(outcome, settings)
        findings = tuple(sorted(self._weighed(shown, settings), key=location_key))
        return FileReport(
            path,
            outcome.format,
            findings,
            tuple(
                run_report(run, estimate)
                for analysis in outcome.analyses
                for run, estimate in zip(analysis.runs, analysis.estimates)
            ),
            suppressed,
            texts=_texts(outcome, findings),
            readable=outcome.readable,
        )

    def _weighed(self, findings: tuple[Finding, ...], settings: FileSettings) -> Iterator[Finding]:
        """Findings that the selection leaves, at the severity that settings give them."""
        for item in findings:
            severity = severity_of(settings, item.rule, item.name)
            if severity != "off" and is_chosen(settings.select, settings.ignore, item.rule, item.name):
                yield item._replace(severity=severity) if severity else item


def _texts(outcome: Outcome, findings: tuple[Finding, ...]) -> dict[str, str]:
    """The texts that excerpts need, and no others."""
    wanted = {item.location.path for item in findings}
    wanted |= {place.path for item in findings for place, _ in item.related}
    documents = [analysis.document for analysis in outcome.analyses]
    documents += [part for analysis in outcome.analyses if analysis.parsed for part in analysis.parsed.documents]
    return {document.path: document.text for document in documents if document.path in wanted}


def files(given: options.Options) -> list[Found]:
    """The files to read, in order. Raises CommandError for a root that is none."""
    roots = [path for path in given.paths or ["."] if path != "-"]
    found = []
    for item in discover(roots, given.exclude):
        if item.error:
            raise CommandError(f"{item.path}: {item.error}")
        found.append(item)
    return found


def stdin_text() -> bytes:
    return sys.stdin.buffer.read()
