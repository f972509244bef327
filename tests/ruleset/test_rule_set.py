"""Sets of rules: what is asked of each, and what settings leave in."""

from __future__ import annotations

from memlint.expressions.facts import Facts
from memlint.ruleset.rule import Rule
from memlint.ruleset.rule_set import RuleSet, listed
from memlint.run import Run

RULES = (
    Rule("AAA001", "a/of-all", "error", ()),
    Rule("AAA002", "a/of-one-format", "error", (), formats=("axolotl",)),
    Rule("AAA003", "a/of-inference", "error", (), purposes=("inference",), folds_into=("AAA001",)),
    Rule("AAA004", "a/of-a-key", "error", (), needs=(("key", "config", "bf16"),)),
    Rule("AAA005", "a/in-preview", "error", (), preview=True),
)


def candidates(rules: RuleSet, name: str = "llamafactory", purpose: str = "train", **keys: object) -> list[str]:
    facts = Facts(Run(name, "train.yaml", purpose=purpose), None, {"config": keys})
    return [rule.id[-1] for rule in rules.candidates(facts, name)]


def test_rules_are_found_by_format_purpose_and_keys() -> None:
    rules = listed(RULES)

    assert candidates(rules) == ["1", "5"]
    assert candidates(rules, "axolotl") == ["1", "2", "5"]
    assert candidates(rules, purpose="inference") == ["3"]
    assert candidates(rules, bf16=True) == ["1", "4", "5"]


def test_settings_leave_rules_out() -> None:
    rules = listed(RULES).where(lambda rule: not rule.preview)

    assert candidates(rules, "axolotl") == ["1", "2"]
    assert [rule.id for rule in rules] == [rule.id for rule in RULES[:4]]
    assert rules.names == tuple((rule.id, rule.name) for rule in RULES[:4])
    assert rules.find("AAA005") is None
    assert [rule.id for rule in rules.where(lambda rule: not rule.formats)] == ["AAA001", "AAA003", "AAA004"]


def test_a_rule_is_found_by_its_id() -> None:
    rules = listed(RULES)

    assert rules.find("AAA003") is RULES[2]
    assert rules.find("AAA009") is None


def test_a_rule_is_read_once() -> None:
    read = []

    def rule(number: int) -> Rule:
        read.append(number)
        return RULES[number]

    whole = listed(RULES)
    rules = RuleSet(lambda: whole.names, rule, whole._index).where(lambda rule: True)
    for _ in range(2):
        candidates(rules)

    assert read == [0, 2, 4]
