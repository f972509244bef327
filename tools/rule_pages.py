"""Writes docs/rules/: a page a rule, made from its file, and the index. `--check` only says what is stale (exit 1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml
from generated import settle

from memlint.ruleset.python import MODULES

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "rules"


def rules() -> list[dict[str, Any]]:
    """The fields of every shipped rule, by id."""
    files = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "rules").rglob("*.yaml"))]
    return sorted([*files, *(dict(module.FIELDS) for module in MODULES)], key=lambda rule: rule["id"])


def page(rule: dict[str, Any]) -> str:
    return "\n".join(lines(rule)).rstrip() + "\n"


def lines(rule: dict[str, Any]) -> Iterator[str]:
    yield f"# {rule['id']}: {rule['title']}"
    yield ""
    formats = ", ".join(rule.get("formats", [])) or "every format"
    yield f"`{rule['name']}`, {rule['severity']}, for {formats}{', preview' if rule.get('preview') else ''}."
    yield ""
    yield from (str(rule.get("why", "")).strip(), "")
    if "when" in rule:
        yield from ("It fires when", "", "```python", str(rule["when"]).strip(), "```", "")
    yield from fixes(rule)
    yield from examples(rule)
    if rule.get("sources"):
        yield from ("## Sources", "", *(f"- {source}" for source in rule["sources"]))


def fixes(rule: dict[str, Any]) -> Iterator[str]:
    fix = rule.get("fix")
    if not fix:
        return
    yield from ("## Fix", "")
    for item in fix if isinstance(fix, list) else [fix]:
        if item == "plan":
            yield "- The planner looks for the cheapest changes that fit; each is estimated anew."
            continue
        safe = "keeps the training result" if item.get("safe") else "changes more than memory"
        yield f"- {item['title']} ({safe})"
    yield ""


def examples(rule: dict[str, Any]) -> Iterator[str]:
    for word, heading in (("fails", "Fails"), ("passes", "Passes")):
        found = next((item for item in rule.get("examples", []) if word in item), None)
        if found is None:
            continue
        where = ", ".join(f"{name}: {found[name]}" for name in ("gpu", "gpus") if name in found)
        yield from (f"## {heading}", "")
        if where:
            yield from (f"On `{where}`:", "")
        yield from ("```yaml", found[word].rstrip(), "```", "")


FILTER = """\
<label class="rules-filter">Filter by id, name, severity or words
<input type="search" id="rules-filter" autocomplete="off" spellcheck="false"></label>
<p class="rules-count" id="rules-count" role="status"></p>"""


def index(found: list[dict[str, Any]]) -> str:
    """The list of rules, family by family."""
    head = ["# Rules", "", f"{len(found)} rules. `memlint explain MEM001` prints a rule's page.", "", FILTER]
    return "\n".join([*head, *(line for family in _families(found) for line in family)]) + "\n"


def _families(found: list[dict[str, Any]]) -> Iterator[list[str]]:
    by_family = sorted(found, key=lambda rule: (rule["name"].partition("/")[0], rule["id"]))
    for family, members in groupby(by_family, key=lambda rule: str(rule["name"].partition("/")[0])):
        rows = [f"| [{r['id']}]({r['id']}.md) | {r['severity']} | {r['name']} | {r['title']} |" for r in members]
        yield ["", f"## {family}", "", "| id | severity | name | title |", "|---|---|---|---|", *rows]


def pages() -> dict[Path, str]:
    found = rules()
    return {PAGES / "index.md": index(found), **{PAGES / f"{rule['id']}.md": page(rule) for rule in found}}


def main(arguments: list[str]) -> int:
    return settle(pages(), arguments, present=PAGES.glob("*.md"))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
