"""The part that check, estimate and others share: options to files to file reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

import memlint.memory.card.calibrated as calibrated
import memlint.plugin_registry as extensions
from memlint._record import NamedTuple
from memlint.commands import options
from memlint.errors import UsageError
from memlint.findings import Finding, Location
from memlint.formats.base import Missing
from memlint.formats.issues import ISSUES
from memlint.lint.measurements import folder_of, known
from memlint.lint.outside_facts import Sources, context_facts, settings_of, sources
from memlint.lint.plugin_choice import plug_in, plugged
from memlint.lint.selection import check_selection, place_of
from memlint.lint.session import UNREADABLE, Outcome, Session
from memlint.lint.summary import run_report
from memlint.lint.suppress import hidden
from memlint.lint.what_if import what_if
from memlint.memory.card.calibration import Measurement
from memlint.report.model import FileReport, location_key
from memlint.repository.discovery import Found, discover
from memlint.repository.globs import compile_globs, covers
from memlint.repository.workspace import Workspace
from memlint.rule_selectors import is_chosen
from memlint.ruleset.engine import INTERNAL_ERROR, Engine, internal_error
from memlint.ruleset.rule import Rule, RuleError
from memlint.ruleset.shipped import shipped
from memlint.ruleset.source_findings import RULES
from memlint.settings import FileSettings, is_in_force, severity_of, with_profile
from memlint.suppressions.apply import EXPIRED, NO_REASON, UNUSED, Waiver
from memlint.suppressions.directives import MALFORMED

# Rules that no rule file defines: of formats, of parsers, and about suppressions.
_FIXED = (
    *dict.fromkeys((issue.rule, issue.name) for issue in ISSUES.values()),
    *((rule, name) for rule, name, _ in RULES),
    *(MALFORMED, UNUSED, EXPIRED, NO_REASON, (UNREADABLE, "source/unreadable")),
    (INTERNAL_ERROR, "internal/error"),
)


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
    contents: tuple[tuple[str, bytes], ...] = ()  # files that are read from here and not from the disk
    what_if: str = ""  # as lint.what_if.what_if
    plugins: tuple[str, ...] = ()
    assumptions: bool = False  # whether reports say what each estimate rests on


class Linted(NamedTuple):
    """A file's report. `waivers`: suppressions in settings that speak about it; `used`: those that hid something."""

    report: FileReport
    waivers: tuple[Waiver, ...] = ()
    used: frozenset[Waiver] = frozenset()


def job(given: options.Options, fixes: bool = True) -> Job:
    """Raises UsageError for what cannot be meant."""
    stdin = "-" in given.paths
    plugins = plugged(given)
    return Job(
        sources(given),
        tuple(path for path in given.paths or ["."] if path != "-"),
        options.words(getattr(given, "select", [])),
        options.words(getattr(given, "ignore", [])),
        getattr(given, "profile", None) or "",
        getattr(given, "preview", False),
        fixes,
        os.getcwd(),
        ((stdin_name(given), sys.stdin.buffer.read()),) if stdin else (),
        plugins=plugins,
    )


class Linter:
    """Lints file after file; rules are read once, settings once a folder."""

    def __init__(
        self,
        what: Job,
        workspace: Workspace | None = None,
        read_settings: Callable[[str], FileSettings] | None = None,
    ) -> None:
        """`workspace` and `read_settings` stand for the files on disk: another commit's, for example."""
        self.job = what
        self._on_disk = read_settings is None
        plug_in(what.plugins)  # a worker may be a fresh process
        # Asked for some five times a file.
        self._read_settings = lru_cache(maxsize=64)(
            read_settings or (lambda path: settings_of(os.path.join(self.session.cwd, path), what.given))
        )
        self.settings = lru_cache(maxsize=64)(self._settings)
        self._rules: dict[tuple[str, ...], tuple[Rule, ...]] = {}
        self._engines: dict[tuple[object, ...], Engine] = {}
        self._names: dict[int, tuple[tuple[str, str], ...]] = {}
        self.session = Session(
            lambda path: self.engine(self.settings(path), self.measured(path)),
            lambda document, files: context_facts(document, files, what.given, self._read_settings(document.path)),
            what.roots,
            what.cwd,
            what.given.hub,
            dict(what.contents),
            workspace,
            what.given.exact,
        )

    def _settings(self, path: str) -> FileSettings:
        """The settings of a file, with what the command line says of rules on top."""
        found = self._read_settings(path)
        if self.job.select:
            found = found._replace(select=self.job.select)
        if self.job.profile:
            found = with_profile(found, self.job.profile)
        return found._replace(
            ignore=(*found.ignore, *self.job.ignore),
            preview=self.job.preview or found.preview,
        )

    def rules(self, folders: tuple[str, ...] = ()) -> tuple[Rule, ...]:
        """The shipped rules and those of `folders`. Raises UsageError for a broken one."""
        if folders not in self._rules:
            try:
                own = folders or extensions.rules
                self._rules[folders] = _with_own(folders) if own else shipped()
            except RuleError as error:
                raise UsageError(f"a rule cannot be used: {error}") from None
        return self._rules[folders]

    def measured(self, path: str) -> tuple[Measurement, ...]:
        """The user's own measurements beside the settings that hold for a file."""
        if self.job.given.isolated:
            return ()
        return known(folder_of(os.path.join(self.session.cwd, path), self.job.given.settings_file))

    def engine(self, settings: FileSettings, measured: tuple[Measurement, ...] = ()) -> Engine:
        key = (
            measured,
            *(settings.rules_dirs, settings.select, settings.ignore, settings.profile, settings.preview),
            tuple(settings.severity.items()),
        )
        if key not in self._engines:
            check_selection(settings, self.known(settings), (*self.job.select, *self.job.ignore))
            rules = self.rules(settings.rules_dirs)
            chosen = (r for r in rules if is_in_force(settings, r.id, r.name, r.profiles, r.preview))
            self._engines[key] = (
                Engine(tuple(chosen), calibrated.calibrated(measured)) if measured else Engine(tuple(chosen))
            )
        return self._engines[key]

    def outcome(self, path: str, named: bool = True) -> Outcome:
        return self.session.lint(path, named, self.job.fixes)

    def report(self, path: str, named: bool = True) -> FileReport:
        """One file's findings after suppressions, and its runs."""
        return self.linted(path, named).report

    def linted(self, path: str, named: bool = True) -> Linted:
        """The same with what suppressions in settings did. A crash is a finding on the file."""
        try:
            return self.judged(path, self.session.lint(path, named, self.job.fixes))
        except UsageError:
            raise
        except Exception as error:
            place = Location(path, 1, 1, 1, 1)
            return Linted(FileReport(path, "", (internal_error(place, error, "on this file"),), ()))

    def judged(self, path: str, outcome: Outcome) -> Linted:
        """What is left of an outcome after suppressions and the choice of rules."""
        settings = self.settings(path)
        self._refuse_missing(path, settings)
        kept = hidden(outcome, self.settings, self.known(settings), self.in_force(settings), self._is_there)
        findings = tuple(sorted(self._weighed(kept.findings, settings), key=location_key))
        runs = (
            run_report(run, estimate, self.job.assumptions)._replace(what_if=what_if(run, self.job.what_if))
            for analysis in outcome.analyses
            for run, estimate in zip(analysis.runs, analysis.estimates)
        )
        report = FileReport(
            path,
            outcome.format,
            findings,
            tuple(runs),
            kept.suppressed,
            texts=_texts(outcome, findings),
            readable=outcome.readable,
        )
        return Linted(report, settings.waivers, kept.used)

    def _is_there(self, name: str, path: str) -> bool:
        """Whether the file at `path` may name `name` as its companion."""
        return not isinstance(self.session.workspace(path).context().read(name, path), Missing)

    def _refuse_missing(self, path: str, settings: FileSettings) -> None:
        """Raises UsageError for a file or folder that settings name and that is not there.

        Those of another commit may well name what the working tree has no more.
        """
        if not self._on_disk:
            return
        gone = [("rules_dirs", name) for name in settings.rules_dirs if not os.path.isdir(name)]
        gone += [("companions", name) for name in settings.companions if not self._is_there(name, path)]
        for key, name in gone:
            word = "with" if key == "companions" else key
            raise UsageError(f"{place_of(settings, key)}`{word}`: {_shown(name)} is not there")

    def known(self, settings: FileSettings) -> tuple[tuple[str, str], ...]:
        """Every rule that a suppression may name."""
        return self._named(self.rules(settings.rules_dirs))

    def in_force(self, settings: FileSettings) -> tuple[tuple[str, str], ...]:
        """The rules that ran."""
        return self._named(self.engine(settings).rules)

    def _named(self, rules: tuple[Rule, ...]) -> tuple[tuple[str, str], ...]:
        """Ids and names, those that no rule file defines included; listed once for rules that are kept here."""
        found = self._names.get(id(rules))
        if found is None:
            found = self._names[id(rules)] = (*((rule.id, rule.name) for rule in rules), *_FIXED)
        return found

    def _weighed(self, findings: tuple[Finding, ...], settings: FileSettings) -> Iterator[Finding]:
        """Findings that the selection leaves, at the severity that settings give them."""
        for item in findings:
            severity = severity_of(settings, item.rule, item.name)
            if severity != "off" and is_chosen(settings.select, settings.ignore, item.rule, item.name):
                yield item._replace(severity=severity) if severity else item


def _with_own(folders: tuple[str, ...]) -> tuple[Rule, ...]:
    """The shipped rules and those of `folders`. Raises RuleError."""
    from memlint.ruleset.folder import ordered, read_folder

    return ordered([*shipped(), *extensions.rules, *(rule for folder in folders for rule in read_folder(folder))])


def _texts(outcome: Outcome, findings: tuple[Finding, ...]) -> dict[str, str]:
    """The texts that excerpts need, and no others."""
    wanted = {item.location.path for item in findings}
    wanted |= {place.path for item in findings for place, _ in item.related}
    documents = [analysis.document for analysis in outcome.analyses]
    documents += [part for analysis in outcome.analyses if analysis.parsed for part in analysis.parsed.documents]
    return {document.path: document.text for document in documents if document.path in wanted}


def files(given: options.Options) -> list[Found]:
    """The files to read, in order; a hook's named files are candidates. Raises UsageError for a root that is none."""
    plugged(given)
    roots = [_shown(path) for path in given.paths or ["."] if path != "-"]
    hook, force = getattr(given, "hook", False), given.force_exclude
    cut = compile_globs(given.exclude)
    asked = sources(given)
    found = [Found(stdin_name(given), named=True)] if "-" in given.paths else []
    for item in discover(roots, given.exclude):
        if item.error:
            raise UsageError(f"{item.path}: {item.error}")
        if (not item.named or force) and settings_of(item.path, asked).excluded:
            continue
        if item.named and force and covers(cut, _from_here(item.path)):
            continue
        found.append(item._replace(named=item.named and not hook))
    return found


def stdin_name(given: options.Options) -> str:
    return _shown(given.stdin_filename or "stdin")


def _shown(path: str) -> str:
    """`path` as reports call it: relative where it lies below the working directory."""
    normal = os.path.normpath(path)
    relative = _from_here(normal)
    return relative if os.path.isabs(normal) and not relative.startswith("..") else normal


def _from_here(path: str) -> str:
    try:
        return os.path.relpath(path).replace(os.sep, "/")
    except ValueError:  # another drive
        return path
