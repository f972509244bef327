"""SARIF 2.1.0: rules with help, locations with character regions, related locations, fixes, fingerprints."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from memlint.findings import Finding, Fix, Location
from memlint.report.fingerprint import fingerprints
from memlint.report.model import Report, RuleFacts, findings
from memlint.report.terminal import clean
from memlint.report.text import describe_fix

LEVELS = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> str:
    items = findings(report)
    used = sorted({item.rule for item in items} | {rule.id for rule in report.rules})
    known = {rule.id: rule for rule in report.rules}
    descriptors = [_descriptor(known.get(rule) or _from_finding(rule, items)) for rule in used]
    run = {
        "tool": {
            "driver": {
                "name": "memlint",
                "version": report.version,
                "rules": descriptors,
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"ROOT": {"description": {"text": "where memlint ran"}}},
        "results": [_result(item, mark, used) for item, mark in fingerprints(items)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _from_finding(rule: str, items: tuple[Finding, ...]) -> RuleFacts:
    item = next(item for item in items if item.rule == rule)
    return RuleFacts(rule, item.name, item.name, item.severity, item.why, item.url)


def _descriptor(rule: RuleFacts) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": clean(rule.title) or rule.id},
        "fullDescription": {"text": clean(rule.why) or clean(rule.title) or rule.id},
        "defaultConfiguration": {"level": LEVELS[rule.severity]},
        "properties": {"tags": [rule.family or rule.name.split("/")[0]]},
    }
    if rule.why:
        entry["help"] = {"text": clean(_help(rule, "")), "markdown": escape_lines(_help(rule, "- "))}
    return {**entry, "helpUri": rule.url} if rule.url else entry


def _help(rule: RuleFacts, bullet: str) -> str:
    sources = "\n".join(f"{bullet}{source}" for source in rule.sources)
    return f"{rule.why}\n\nSources:\n\n{sources}" if sources else rule.why


def escape_lines(text: str) -> str:
    """Markdown that shows `text` and keeps its bullets; no raw HTML gets in."""
    return clean(text).replace("&", "&amp;").replace("<", "&lt;")


def _result(finding: Finding, mark: str, rules: list[str]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": LEVELS[finding.severity],
        "message": {"text": clean(_message(finding))},
        "locations": [_location(finding.location)],
        "partialFingerprints": {"memlint/v1": mark},
        "properties": {"confidence": finding.confidence},
    }
    if finding.related:
        entry["relatedLocations"] = [
            {**_location(place), "message": {"text": clean(text)}} for place, text in finding.related
        ]
    changes = [change for change in map(_fix, finding.fixes) if change]
    return {**entry, "fixes": changes} if changes else entry


def _message(finding: Finding) -> str:
    return "\n".join([finding.message, *(f"Fix: {describe_fix(fix)}" for fix in finding.fixes[:3])])


def _location(place: Location) -> dict[str, Any]:
    return {"physicalLocation": {"artifactLocation": _artifact(place.path), "region": _region(place)}}


def _artifact(path: str) -> dict[str, str]:
    uri = quote(path.replace("\\", "/").encode("utf-8", "replace"), safe="/")
    return {"uri": uri} if path.startswith("/") else {"uri": uri, "uriBaseId": "ROOT"}


def _region(place: Location) -> dict[str, int]:
    region = {"startLine": max(1, place.line), "startColumn": max(1, place.column)}
    if place.end_line >= place.line:
        region |= {"endLine": max(1, place.end_line), "endColumn": max(1, place.end_column)}
    return region


def _fix(fix: Fix) -> dict[str, Any] | None:
    """The SARIF fix; None for one without patches, as SARIF needs text replacements. The message then describes it."""
    if not fix.patches:
        return None
    changes: dict[str, list[dict[str, Any]]] = {}
    for patch in fix.patches:
        changes.setdefault(patch.path, []).append(
            {
                "deletedRegion": {"charOffset": patch.start, "charLength": patch.end - patch.start},
                "insertedContent": {"text": patch.text},
            }
        )
    return {
        "description": {"text": clean(fix.title)},
        "artifactChanges": [
            {"artifactLocation": _artifact(path), "replacements": replaced} for path, replaced in changes.items()
        ],
    }
