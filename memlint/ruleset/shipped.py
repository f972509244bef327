"""Reads the shipped rules: from the snapshot if it is current, else from the rule files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from memlint.ruleset import snapshot as rule_snapshot
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule_set import RuleSet, listed
from memlint.shipped_data import PACKAGE
from memlint.shipped_data import folder as data_folder

SNAPSHOT = os.path.join(PACKAGE, "_shipped", "rules.jsonl")


def shipped() -> RuleSet:
    """All shipped rules by id, preview ones included. Raises `RuleError` for an invalid rule file."""
    folder = data_folder("rules")
    rules = from_snapshot(folder)
    if rules is None:
        # Reading rule files takes `ast`, the vocabulary and the schemas; an install never needs them.
        from memlint.ruleset.sources import from_files

        rules = listed(from_files(folder))
    return rules


def from_snapshot(folder: str) -> RuleSet | None:
    """The rules of the snapshot; None if there is none or a file changed since (never in an installation)."""
    try:
        with open(SNAPSHOT, "rb") as stream:
            found = rule_snapshot.read(stream.read(), {module.FIELDS["id"]: module.check for module in MODULES})
    except OSError:
        return None
    if found is None:
        return None
    rules, marks = found
    installed = os.path.dirname(os.path.abspath(folder)) == os.path.dirname(SNAPSHOT)
    return rules if installed or marks == _stamps(folder) else None


def _stamps(folder: str) -> Mapping[str, str]:
    from memlint.ruleset.stamps import stamps  # in checkouts

    return stamps(folder)
