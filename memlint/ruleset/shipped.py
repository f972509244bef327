"""Reads the shipped rules: from the snapshot if it is current, else from the rule files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from memlint.ruleset import snapshot as rule_snapshot
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Rule
from memlint.shipped_data import PACKAGE
from memlint.shipped_data import folder as data_folder

SNAPSHOT = os.path.join(PACKAGE, "_shipped", "rules.jsonl")


def shipped() -> tuple[Rule, ...]:
    """All shipped rules ordered by id, preview ones included. Raises `RuleError` for an invalid rule file."""
    folder = data_folder("rules")
    rules = from_snapshot(folder)
    if rules is None:
        # Reading rule files takes `ast`, the vocabulary and the schemas; an install never needs them.
        from memlint.ruleset.sources import from_files

        rules = from_files(folder)
    return rules


def from_snapshot(folder: str) -> tuple[Rule, ...] | None:
    """The rules of the snapshot; None if there is none or a file changed since (never in an installation)."""
    try:
        with open(SNAPSHOT, "rb") as stream:
            found = rule_snapshot.read(stream.read())
    except OSError:
        return None
    if found is None:
        return None
    rules, marks = found
    installed = os.path.dirname(os.path.abspath(folder)) == os.path.dirname(SNAPSHOT)
    if not installed and marks != _stamps(folder):
        return None
    checks = {module.FIELDS["id"]: module.check for module in MODULES}
    return tuple(rule._replace(check=checks[rule.id]) if rule.id in checks else rule for rule in rules)


def _stamps(folder: str) -> Mapping[str, str]:
    from memlint.ruleset.stamps import stamps  # in checkouts

    return stamps(folder)
