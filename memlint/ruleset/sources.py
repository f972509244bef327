"""Reads the shipped rules from their files: to make the snapshot, and in a checkout without a current one."""

from __future__ import annotations

from memlint.ruleset import snapshot as rule_snapshot
from memlint.ruleset.folder import ordered, read_rule, rule_files
from memlint.ruleset.python import MODULES, PythonRule
from memlint.ruleset.rule import Rule
from memlint.ruleset.rule_file import parse_python_rule
from memlint.ruleset.stamps import stamps
from memlint.shipped_data import folder as data_folder
from memlint.source.document import Document


def from_files(folder: str) -> tuple[Rule, ...]:
    """Reads and checks the rules below `folder` and those written in Python. Raises `RuleError`."""
    rules = [read_rule(f"{folder}/{name}", f"rules/{name}") for name in rule_files(folder)]
    return ordered([*rules, *(parse_python_rule(fields_document(module), module.check) for module in MODULES)])


def fields_document(module: PythonRule) -> Document:
    """The fields of a rule in Python as a document, like that of a rule file but without positions."""
    path = str(getattr(module, "__file__", "")).replace("\\", "/").rpartition("/memlint/")[2]
    return Document(f"memlint/{path}", "", "yaml", "yaml12", module.FIELDS, {})


def snapshot_text(stamped: bool = True) -> str:
    """The current text of the snapshot. `stamped`: with the stamps that checkouts compare; installations need none, and
    without them two builds give equal bytes."""
    folder = data_folder("rules")
    return rule_snapshot.dump(from_files(folder), stamps(folder) if stamped else {})
