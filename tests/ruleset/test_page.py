"""A rule's page: what it takes from a rule file, a rule in Python and a rule without a file."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.report.model import RuleFacts
from memlint.ruleset import page
from memlint.ruleset.shipped import shipped

RULES = {rule.id: rule for rule in shipped()}


def page_of(rule_id: str) -> dict[str, Any]:
    rule = RULES[rule_id]
    return page.facts(RuleFacts(rule.id, rule.name, "title", rule.severity), rule)


@pytest.mark.parametrize("rule_id", sorted(RULES))
def test_every_rule_has_a_page_with_reason_source_and_example(rule_id: str) -> None:
    found = page_of(rule_id)
    text = "\n".join(page.text(found))

    assert found["why"] and found["sources"] and found["file"]
    assert {"fails", "passes"} <= {key for example in found["examples"] for key in example}
    assert text.startswith(f"{rule_id} {RULES[rule_id].name} (")
    for heading in ("Why", "Formats", "Fails", "Passes", "Sources", "Suppress", "Rule file"):
        assert f"\n{heading}" in text, heading


def test_a_rule_in_python_has_the_page_of_its_module() -> None:
    found = page_of("OFF001")
    assert found["file"].endswith(".py") and not found["when"]
    assert [fix["title"] for fix in found["fixes"]] == ["keep everything on the card"] * 2
    assert [fix["safe"] for fix in found["fixes"]] == [True, False]
    assert "keep everything on the card (--unsafe)" in "\n".join(page.text(found))


def test_a_rule_without_a_file_has_what_is_known_of_it() -> None:
    found = page.facts(RuleFacts("CFG001", "config/unknown-key", "Unknown", "error", "because", sources=("a",)), None)
    text = "\n".join(page.text(found))

    assert (found["why"], found["sources"], found["file"], found["examples"]) == ("because", ["a"], "", [])
    assert "Rule file" not in text and "Formats" not in text
    assert "# memlint: ignore[CFG001] the reason" in text


def test_an_example_states_what_it_was_made_for() -> None:
    blank = page.facts(RuleFacts("A", "a/b", "t", "info"), None)
    examples = [{"fails": "a: 1\nb: 2\n", "gpu": "H100", "versions": {"trl": "1.0"}}, {"fails": "c: 3"}, {"fixed": 3}]
    lines = "\n".join(page.text({**blank, "examples": examples}))

    assert "Fails  (gpu: H100, versions: {'trl': '1.0'})\n  | a: 1\n  | b: 2" in lines
    assert "c: 3" not in lines and "Fixed" not in lines
