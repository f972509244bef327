"""Reads the rules once and makes an engine for each set of rules that settings put in force."""

from __future__ import annotations

import os
from functools import lru_cache, partial

import memlint.file_access as file_access
import memlint.plugin_registry as extensions
from memlint.errors import UsageError
from memlint.formats.issues import ISSUES
from memlint.lint.analyse_file import UNREADABLE
from memlint.lint.measurements import measurements_folder, read_measurements
from memlint.lint.request import LintRequest
from memlint.lint.rule_selection import check_selection
from memlint.lint.settings_lookup import SettingsLookup
from memlint.memory.card.measurements import Measurement
from memlint.memory.estimate import estimate_in_stages
from memlint.rule_groups import INTERNAL_ERROR
from memlint.ruleset.engine import Engine
from memlint.ruleset.rule import RuleError
from memlint.ruleset.rule_set import Names, RuleSet, listed
from memlint.ruleset.shipped import shipped
from memlint.ruleset.source_findings import RULES
from memlint.settings import FileSettings, is_in_force
from memlint.suppressions.apply import EXPIRED, NO_REASON, UNUSED
from memlint.suppressions.directives import MALFORMED

# Rules that no rule file defines: of formats, of parsers, and about suppressions.
_BUILT_IN: Names = (
    *dict.fromkeys((issue.rule, issue.name) for issue in ISSUES.values()),
    *((rule, name) for rule, name, _ in RULES),
    *(MALFORMED, UNUSED, EXPIRED, NO_REASON, (UNREADABLE, "source/unreadable")),
    (INTERNAL_ERROR, "internal/error"),
)


class RuleCatalog:
    """The rules of each set of folders, and an engine for each set of rules in force.

    `like`: an earlier catalog of this process, whose rules and engines are reused.
    """

    def __init__(self, request: LintRequest, settings: SettingsLookup, like: RuleCatalog | None = None) -> None:
        self._request = request
        self._settings = settings
        self._cwd = os.path.realpath(request.cwd or os.getcwd())
        self._rules: dict[tuple[str, ...], RuleSet] = like._rules if like else {}
        self._engines: dict[tuple[object, ...], Engine] = like._engines if like else {}
        self._measurements = lru_cache(maxsize=64)(self._measurements_of)  # called about three times per file

    def rules(self, folders: tuple[str, ...] = ()) -> RuleSet:
        """The shipped rules and those of `folders`. Raises UsageError for a broken one."""
        if folders not in self._rules:
            try:
                self._rules[folders] = _with_user_rules(folders) if folders or extensions.rules else shipped()
            except RuleError as error:
                raise UsageError(f"a rule cannot be used: {error}") from None
        return self._rules[folders]

    def engine_for(self, path: str) -> Engine:
        """The engine for a file: its rules in force, and the estimator calibrated with its measurements."""
        return self.engine_of(self._settings.of(path), self._measurements(path))

    def judge_for(self, path: str) -> Engine:
        """The engine that judges plans for a file. It has all rules of the profile, selected or not, so that `--select`
        does not change which plans are offered."""
        every = self._settings.of(path)._replace(select=("all",), ignore=())
        return self.engine_of(every, self._measurements(path))

    def known_names(self, settings: FileSettings) -> Names:
        """Every rule that a suppression may name."""
        return (*self.rules(settings.rules_dirs).names, *_BUILT_IN)

    def names_in_force(self, settings: FileSettings) -> Names:
        """The rules that run under these settings, and the built-in ones."""
        return (*self.engine_of(settings).rules.names, *_BUILT_IN)

    def engine_of(self, settings: FileSettings, measured: tuple[Measurement, ...] = ()) -> Engine:
        key = (
            measured,
            *(settings.rules_dirs, settings.select, settings.ignore, settings.profile, settings.preview),
            *(tuple(settings.severity.items()), self._request.findings_alone),
        )
        if key not in self._engines:
            check_selection(
                settings, partial(self.known_names, settings), (*self._request.select, *self._request.ignore)
            )
            chosen = self.rules(settings.rules_dirs).where(
                lambda rule: is_in_force(settings, rule.id, rule.name, rule.profiles, rule.preview)
            )
            self._engines[key] = self._engine(chosen, measured)
        return self._engines[key]

    def _engine(self, rules: RuleSet, measured: tuple[Measurement, ...]) -> Engine:
        if measured:
            return _calibrated_engine(rules, measured)
        return Engine(rules, in_stages=estimate_in_stages if self._request.findings_alone else None)

    def _measurements_of(self, path: str) -> tuple[Measurement, ...]:
        """The user's measurements that apply to a file."""
        if self._request.facts.isolated:
            return ()
        return read_measurements(measurements_folder(os.path.join(self._cwd, path), self._request.facts.settings_file))


def _calibrated_engine(rules: RuleSet, measured: tuple[Measurement, ...]) -> Engine:
    from memlint.memory.card.calibrated import calibrated  # late: only needed with measurements

    return Engine(rules, calibrated(measured))


def _with_user_rules(folders: tuple[str, ...]) -> RuleSet:
    """The shipped rules, those of plug-ins and those of `folders`. Raises RuleError."""
    from memlint.ruleset.folder import ordered, read_folder  # late: only needed for the user's own rules

    file_access.cannot_record()  # rule files are not read through file_access, so the results must not be cached
    own = (rule for folder in folders for rule in read_folder(folder))
    return listed(ordered([*shipped(), *extensions.rules, *own]))
