"""`memlint rules`: lists the rules in force, with their severity and where each setting came from."""

from __future__ import annotations

import json
import os
from typing import Any

from memlint.commands import options
from memlint.commands.output import to_screen
from memlint.errors import UsageError
from memlint.lint.linter import Linter
from memlint.lint.rule_facts import built_in_rules
from memlint.report.model import RuleFacts
from memlint.ruleset.rule import PROFILES, Rule
from memlint.settings import FileSettings, is_in_force, severity_of

FORMATS = ("text", "json", "markdown")


def run(program: str, arguments: list[str]) -> int:
    parser = options.parser(program, "The rules, their severity, and whether they are in force here.")
    parser.add_argument("--all", action="store_true", help="rules that are not in force, too")
    parser.add_argument("--format", choices=FORMATS, default="text")
    options.add_rules(parser)
    options.add_settings(parser)
    given = parser.parse_args([*arguments])
    if options.handle_info_flags(given):
        return 0
    linter = Linter(options.lint_request(given))
    settings = linter.settings.of(os.path.join(os.getcwd(), "config.yaml"))
    from_files = [_row(rule, settings) for rule in linter.rules.rules(settings.rules_dirs)]
    rows = sorted(
        [*from_files, *(_built_in_row(rule, settings) for rule in built_in_rules())], key=lambda row: row["id"]
    )
    listed = [row for row in rows if given.all or row["in_force"]]
    if not listed:
        raise UsageError("no rule is in force: see --select, --ignore and the settings")
    to_screen(_RENDER[given.format](listed), given.format == "text")
    return 0


def _row(rule: Rule, settings: FileSettings) -> dict[str, Any]:
    override = severity_of(settings, rule.id, rule.name)
    in_force = is_in_force(settings, rule.id, rule.name, rule.profiles, rule.preview)
    origins = (settings.origins.get(f"severity.{word}") for word in (rule.id, rule.name, rule.family))
    origin = next((found for found in origins if found), None) if override else None
    return {
        "id": rule.id,
        "name": rule.name,
        "title": rule.texts().title,
        "severity": override or rule.severity,
        "in_force": in_force,
        "preview": rule.preview,
        "formats": list(rule.formats),
        "profiles": list(rule.profiles),
        "origin": f"{origin.path}:{origin.line}" if origin else rule.path,
    }


def _built_in_row(rule: RuleFacts, settings: FileSettings) -> dict[str, Any]:
    """The row of a rule that has no rule file: of formats, of parsers or about suppressions."""
    return {
        "id": rule.id,
        "name": rule.name,
        "title": rule.title,
        "severity": severity_of(settings, rule.id, rule.name) or rule.severity,
        "in_force": is_in_force(settings, rule.id, rule.name, PROFILES, False),
        "preview": False,
        "formats": [],
        "profiles": list(PROFILES),
        "origin": "memlint",
    }


def _text(rows: list[dict[str, Any]]) -> str:
    width = max(len(row["name"]) for row in rows)
    lines = [f"{row['id']}  {row['severity']:7}  {row['name']:{width}}  {row['title']}" for row in rows]
    return "\n".join([*lines, f"{len(rows)} rules"]) + "\n"


def _json(rows: list[dict[str, Any]]) -> str:
    return json.dumps({"schema_version": 1, "rules": rows}, indent=2) + "\n"


def _markdown(rows: list[dict[str, Any]]) -> str:
    head = ["| id | severity | name | title |", "|---|---|---|---|"]
    return "\n".join([*head, *(f"| {r['id']} | {r['severity']} | {r['name']} | {r['title']} |" for r in rows)]) + "\n"


_RENDER = {"text": _text, "json": _json, "markdown": _markdown}
