"""The rules that memlint ships: from the snapshot where it is current, else from the rule files."""

from __future__ import annotations

import importlib
import os

from memlint.ruleset import snapshot as rule_snapshot
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Rule
from memlint.shipped_data import folder as data_folder

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SNAPSHOT = os.path.join(_PACKAGE, "_shipped", "rules.json")


def shipped() -> tuple[Rule, ...]:
    """All shipped rules by id, preview ones included. Raises `RuleError` where a rule file is broken."""
    folder = data_folder("rules")
    rules = from_snapshot(folder)
    if rules is None:
        # Reading rule files takes `ast`, the vocabulary and the schemas; an install never needs them.
        sources = importlib.import_module("memlint.ruleset.sources")
        rules = sources.from_files(folder)
    return rules


def from_snapshot(folder: str) -> tuple[Rule, ...] | None:
    """The rules of the snapshot, None where there is none or a file has changed since (an install never does)."""
    try:
        with open(SNAPSHOT, encoding="utf-8") as stream:
            found = rule_snapshot.read(stream.read())
    except OSError:
        return None
    if found is None:
        return None
    rules, marks = found
    installed = os.path.dirname(os.path.abspath(folder)) == os.path.dirname(SNAPSHOT)
    if not installed and marks != stamps(folder):
        return None
    checks = {module.FIELDS["id"]: module.check for module in MODULES}
    return tuple(rule._replace(check=checks[rule.id]) if rule.id in checks else rule for rule in rules)


def stamps(folder: str) -> dict[str, str]:
    """Of the rule files, and of what turned them into forms: code, fields of the run, schemas."""
    found = rule_snapshot.stamps(folder, _below(folder, (".yaml", ".yml")))
    found.update(rule_snapshot.stamps(_PACKAGE, ["run.py", *_code()]))
    schemas = data_folder("schemas")
    found.update(rule_snapshot.stamps(schemas, _below(schemas, (".json",))))
    return found


def _code() -> list[str]:
    return [name for room in ("expressions", "ruleset") for name in _below(f"{_PACKAGE}/{room}", (".py",), f"{room}/")]


def _below(folder: str, suffixes: tuple[str, ...], prefix: str = "") -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                found.extend(_below(entry.path, suffixes, f"{prefix}{entry.name}/"))
            elif entry.name.endswith(suffixes):
                found.append(prefix + entry.name)
    return sorted(found)
