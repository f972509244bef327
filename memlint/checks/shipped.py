"""The rules that memlint ships: from the snapshot where it is current, else from the rule files."""

from __future__ import annotations

import os

from memlint._data import folder as data_folder
from memlint.checks import rule_snapshot
from memlint.checks.python import MODULES, PythonRule
from memlint.checks.rule import Rule
from memlint.checks.rule_file import parse_python_rule
from memlint.checks.rule_folder import ordered, read_rule, rule_files
from memlint.source.document import Document

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
SNAPSHOT = os.path.join(_PACKAGE, "_shipped", "rules.json")


def shipped() -> tuple[Rule, ...]:
    """All shipped rules by id, preview ones included. Raises `RuleError` where a rule file is broken."""
    folder = data_folder("rules")
    return from_snapshot(folder) or from_files(folder)


def from_files(folder: str) -> tuple[Rule, ...]:
    """The rules below `folder` and those written in Python, read and checked now."""
    rules = [read_rule(f"{folder}/{name}", f"rules/{name}") for name in rule_files(folder)]
    return ordered([*rules, *(parse_python_rule(fields_document(module), module.check) for module in MODULES)])


def fields_document(module: PythonRule) -> Document:
    """The fields of a rule in Python as the document of a rule file, without places."""
    path = str(getattr(module, "__file__", "")).replace("\\", "/").rpartition("/memlint/")[2]
    return Document(f"memlint/{path}", "", "yaml", "yaml12", module.FIELDS, {})


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
    if not installed and marks != _stamps(folder):
        return None
    checks = {module.FIELDS["id"]: module.check for module in MODULES}
    return tuple(rule._replace(check=checks[rule.id]) if rule.id in checks else rule for rule in rules)


def _stamps(folder: str) -> dict[str, str]:
    """The rule files, and the code that turned them into forms."""
    code = os.path.dirname(__file__)
    sources = [name for name in sorted(os.listdir(code)) if name.endswith(".py")]
    schemas = data_folder("schemas")
    described = [name for name in sorted(os.listdir(schemas)) if name.endswith(".json")]
    return {
        **rule_snapshot.stamps(folder, rule_files(folder)),
        **rule_snapshot.stamps(code, sources),
        **rule_snapshot.stamps(schemas, described),
        **rule_snapshot.stamps(_PACKAGE, ["run.py"]),
    }


def snapshot_text() -> str:
    """What SNAPSHOT should hold now."""
    folder = data_folder("rules")
    return rule_snapshot.dump(from_files(folder), _stamps(folder))
