"""The groups of rules that the code tells apart name rules that exist."""

from __future__ import annotations

import pytest

from memlint import rule_groups
from memlint.lint.rule_facts import built_in_rules
from memlint.ruleset.shipped import shipped

RULES = {*(rule.id for rule in shipped()), *(rule.id for rule in built_in_rules())}
GROUPS = {name: group for name, group in vars(rule_groups).items() if isinstance(group, tuple)}


@pytest.mark.parametrize("name", GROUPS)
def test_each_member_stands_for_a_rule(name: str) -> None:
    unknown = [one for one in GROUPS[name] if not any(rule.startswith(one) for rule in RULES)]

    assert unknown == []


def test_there_are_groups() -> None:
    assert len(GROUPS) > 10
