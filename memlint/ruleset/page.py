"""A rule's page for `memlint explain`: from the rule's own file, as text or as JSON."""

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


def facts(known: RuleFacts, rule: Rule | None) -> dict[str, Any]:
    """What there is to say of a rule. `rule` None: one that a format, a parser or a suppression brings itself."""
    fields = _fields(rule) if rule is not None else {}
    return {
        "id": known.id,
        "name": known.name,
        "title": known.title,
        "severity": known.severity,
        "why": str(fields.get("why", known.why)).strip(),
        "formats": list(fields.get("formats", ())),
        "applies": dict(fields.get("applies", {})),
        "when": str(fields.get("when", "")).strip(),
        "fixes": list(_fixes(fields.get("fix", ()))),
        "examples": list(fields.get("examples", ())),
        "sources": list(fields.get("sources", known.sources)),
        "suppress": f"# memlint: ignore[{known.id}] the reason",
        "file": rule.path if rule is not None else "",
    }


def text(said: Mapping[str, Any]) -> Iterator[str]:
    """The page for a terminal: one example of each kind."""
    yield f"{said['id']} {said['name']} ({said['severity']})"
    yield said["title"]
    if said["why"]:
        yield f"\nWhy\n  {said['why']}"
    if said["when"]:
        yield f"\nWhen\n  {said['when']}"
    if said["file"]:
        yield f"\nFormats\n  {', '.join(said['formats']) or 'all'}"
    if said["applies"]:
        yield "\nVersions\n  " + ", ".join(f"{package} {versions}" for package, versions in said["applies"].items())
    if said["fixes"]:
        yield "\nFix"
        yield from (f"  {fix['title']}{'' if fix['safe'] else ' (--unsafe)'}" for fix in said["fixes"])
    yield from _examples(said["examples"])
    if said["sources"]:
        yield "\nSources"
        yield from (f"  {source}" for source in said["sources"])
    yield f"\nSuppress\n  {said['suppress']}   (JSON files: `suppressions` in memlint.yaml)"
    if said["file"]:
        yield f"\nRule file\n  {said['file']}"


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
    """The rule as it is written: its file, or the fields of its module."""
    module = next((one for one in MODULES if one.FIELDS["id"] == rule.id), None)
    if module is not None:
        return module.FIELDS
    plugged = extensions.documents.get(rule.id)
    if plugged is not None:
        return plugged.value if isinstance(plugged.value, dict) else {}
    own = rule.path.startswith("rules/")
    path = f"{folder('rules')}/{rule.path.partition('/')[2]}" if own else rule.path
    value = read_document(path, rule.path).value
    return value if isinstance(value, dict) else {}
