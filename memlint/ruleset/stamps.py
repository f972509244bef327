"""Stamps that tell whether the rule snapshot is current: of rule files, and of what compiles them (code, schemas)."""

from __future__ import annotations

import os

from memlint.ruleset import snapshot as rule_snapshot
from memlint.shipped_data import PACKAGE
from memlint.shipped_data import folder as data_folder


def stamps(folder: str) -> dict[str, str]:
    """The stamps of the rule files, and of what compiles them: code, fields of the run, schemas."""
    found = rule_snapshot.stamps(folder, _below(folder, (".yaml", ".yml")))
    found.update(rule_snapshot.stamps(PACKAGE, ["run.py", *_code()]))
    schemas = data_folder("schemas")
    found.update(rule_snapshot.stamps(schemas, _below(schemas, (".json",))))
    return found


def _code() -> list[str]:
    return [name for room in ("expressions", "ruleset") for name in _below(f"{PACKAGE}/{room}", (".py",), f"{room}/")]


def _below(folder: str, suffixes: tuple[str, ...], prefix: str = "") -> list[str]:
    found: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                found.extend(_below(entry.path, suffixes, f"{prefix}{entry.name}/"))
            elif entry.name.endswith(suffixes):
                found.append(prefix + entry.name)
    return sorted(found)
