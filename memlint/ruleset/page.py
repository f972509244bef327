"""The page of a rule for `memlint explain`, made from the rule's file, as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import memlint.plugin_registry as extensions
from memlint.report.model import RuleFacts
from memlint.ruleset.folder import read_document
from memlint.ruleset.python import MODULES
from memlint.ruleset.rule import Rule
from memlint.shipped_data import folder

_EXAMPLES = (("fails", "Fails"), ("passes", "Passes"), ("fixed", "Fixed"))


def facts(rule_facts: RuleFacts, rule: Rule | None) -> dict[str, Any]:
    """The contents of a rule's page. `rule`: None for one without a rule file (of formats, parsers, suppressions)."""
    fields = _fields(rule) if rule is not None else {}
    return {
        "id": rule_facts.id,
        "name": rule_facts.name,
        "title": rule_facts.title,
        "severity": rule_facts.severity,
        "why": str(fields.get("why", rule_facts.why)).strip(),
        "formats": list(fields.get("formats", ())),
        "applies": dict(fields.get("applies", {})),
        "when": str(fields.get("when", "")).strip(),
        "fixes": list(_fixes(fields.get("fix", ()))),
        "examples": list(fields.get("examples", ())),
        "sources": list(fields.get("sources", rule_facts.sources)),
        "suppress": f"# memlint: ignore[{rule_facts.id}] the reason",
        "file": rule.path if rule is not None else "",
    }


def text(page: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the page for a terminal, with one example of each kind."""
    yield f"{page['id']} {page['name']} ({page['severity']})"
    yield page["title"]
    if page["why"]:
        yield f"\nWhy\n  {page['why']}"
    if page["when"]:
        yield f"\nWhen\n  {page['when']}"
    if page["file"]:
        yield f"\nFormats\n  {', '.join(page['formats']) or 'all'}"
    if page["applies"]:
        yield "\nVersions\n  " + ", ".join(f"{package} {versions}" for package, versions in page["applies"].items())
    if page["fixes"]:
        yield "\nFix"
        yield from (f"  {fix['title']}{'' if fix['safe'] else ' (--unsafe)'}" for fix in page["fixes"])
    yield from _examples(page["examples"])
    if page["sources"]:
        yield "\nSources"
        yield from (f"  {source}" for source in page["sources"])
    yield f"\nSuppress\n  {page['suppress']}   (JSON files: `suppressions` in memlint.yaml)"
    if page["file"]:
        yield f"\nRule file\n  {page['file']}"


def _examples(examples: list[Mapping[str, Any]]) -> Iterator[str]:
    for word, heading in _EXAMPLES:
        found = next((one for one in examples if word in one), None)
        if found is None or not isinstance(found[word], str):
            continue
        facts = ", ".join(f"{name}: {found[name]}" for name in ("gpu", "gpus", "versions") if name in found)
        yield f"\n{heading}{f'  ({facts})' if facts else ''}"
        yield from (f"  | {line}" for line in found[word].rstrip().splitlines())


def _fixes(fix: Any) -> Iterator[dict[str, Any]]:
    for item in fix if isinstance(fix, (list, tuple)) else [fix]:
        if item == "plan":
            yield {"title": "the planner looks for the cheapest changes that fit, each estimated anew", "safe": True}
        elif isinstance(item, dict):
            yield {"title": str(item.get("title", "")), "safe": bool(item.get("safe"))}


def _fields(rule: Rule) -> Mapping[str, Any]:
    """The fields of a rule as written in its file, its Python module or its plug-in."""
    module = next((one for one in MODULES if one.FIELDS["id"] == rule.id), None)
    if module is not None:
        return module.FIELDS
    from_plugin = extensions.documents.get(rule.id)
    if from_plugin is not None:
        return from_plugin.value if isinstance(from_plugin.value, dict) else {}
    is_shipped = rule.path.startswith("rules/")
    path = f"{folder('rules')}/{rule.path.partition('/')[2]}" if is_shipped else rule.path
    value = read_document(path, rule.path).value
    return value if isinstance(value, dict) else {}
