"""Broken rule files: each is an error with the rule's own line and column."""

from __future__ import annotations

import pytest

from memlint.ruleset.rule import Rule, RuleError
from memlint.ruleset.rule_file import parse_rule
from memlint.source import load

GOOD = """\
id: TST001
name: test/some-slug
title: A rule for tests
severity: warning
variables:
  tokens: batch.micro_batch_size * sequence.length
when: >-
  tokens > 4096
  and method.kind == "lora"
at: [config.cutoff_len, sequence.length]
message: >-
  {tokens} tokens of
  {model.name}
why: Because this is a rule for tests and nothing else.
sources: [https://example.org]
fix:
  - title: cut at {sequence.length // 2}
    set: {sequence.length: "=sequence.length // 2"}
    safe: true
examples:
  - passes: a
  - fails: b
"""


def parse(text: str) -> Rule:
    return parse_rule(load(text.encode(), "rules/test/TST001.yaml", dialect="yaml12")[0])


def test_a_good_rule_loads() -> None:
    rule = parse(GOOD)

    assert (rule.id, rule.family, rule.at) == ("TST001", "test", ("config.cutoff_len", "sequence.length"))
    assert rule.texts().when == 'tokens > 4096 and method.kind == "lora"'
    assert [fix.safe for fix in rule.fixes()] == [True]


def test_the_place_may_be_an_expression() -> None:
    rule = parse(GOOD.replace("at: [config.cutoff_len,", 'at: ["config.{method.kind}",'))

    assert (rule.body().at, rule.at) == (("config.", ["field", "method.kind"]), ("sequence.length",))


@pytest.mark.parametrize(
    ("old", "new", "place", "message"),
    [
        ("tokens > 4096", "tokns > 4096", "8:3", "did you mean `tokens`?"),
        ('"lora"', '"loar"', "9:22", "did you mean 'lora'?"),
        ("{model.name}", "{model.nam}", "13:4", "did you mean `model.name`?"),
        ("{model.name}", "{model.name", "13:3", "{ without }"),
        ("sequence.length]", '"config.{format}"]', "10:26", "only the first place"),
        ("at: [config.cutoff_len", 'at: ["config.{formt}"', "10:15", "did you mean `format`?"),
        ("{tokens}", "tokens}", "12:9", "write }}"),
        ("batch.micro_batch_size *", "batch.micro *", "6:11", "unknown name `batch.micro`"),
        ("  tokens: batch", "  tokens: later + batch", "6:11", "unknown name `later`"),
        ("severity: warning", "severity: warn", "4:11", "severity"),
        ("severity: warning", "severity: warning\nseverty: error", "5:1", "severty"),
        ("id: TST001", "id: tst1", "1:5", "id"),
        ("why: ", "wy: ", "1:1", "why"),
        ("[config.cutoff_len, sequence.length]", "[sequence.lenght]", "10:6", "did you mean `sequence.length`?"),
        ("[config.cutoff_len, sequence.length]", "estimate.verdict", "10:5", "has no place in a file"),
        ("set: {sequence.length:", "set: {sequence.lngth:", "18:11", "did you mean `sequence.length`?"),
        ("set: {sequence.length:", "set: {estimate.verdict:", "18:11", "cannot be set"),
        ('"=sequence.length // 2"', '"=sequence.lenth // 2"', "18:30", "did you mean `sequence.length`?"),
        ('"=sequence.length // 2"', '"long"', "18:29", "is int, never str"),
        ("severity: warning", 'severity: warning\napplies: {trnsformers: ">4"}', "5:11", "did you mean `transformers`"),
        ("severity: warning", 'severity: warning\napplies: {transformers: "4"}', "5:26", "is not a bound"),
        ("  tokens: batch", "  len-: 1\n  tokens: batch", "6:3", "cannot name a variable"),
        ("  tokens: batch", "  true: 1\n  tokens: batch", "6:3", "write the key in quotes"),
        ("tokens > 4096", "tokens", "8:3", "`and` needs bool"),
        ("id: TST001", "id: TST001\nid: TST002", "2:1", ""),
        ("id: TST001", "id: [", "3:6", ""),
    ],
)
def test_a_broken_rule_says_where(old: str, new: str, place: str, message: str) -> None:
    with pytest.raises(RuleError) as caught:
        parse(GOOD.replace(old, new, 1))

    assert str(caught.value).startswith("rules/test/TST001.yaml:")
    assert message in caught.value.message
    assert f"{caught.value.line}:{caught.value.column}" == place


def test_keys_need_a_schema_that_has_them() -> None:
    with pytest.raises(RuleError, match=r"11:6.*unknown name `config.cutof_len`, did you mean `config.cutoff_len`"):
        parse(
            GOOD.replace("severity: warning", "severity: warning\nformats: [llamafactory]").replace(
                "config.cutoff_len", "config.cutof_len"
            )
        )


def test_versions_guard_the_condition() -> None:
    rule = parse(GOOD.replace("severity: warning", 'severity: warning\napplies: {transformers: ">=4.57,<6"}'))

    when = rule.body().when
    assert when is not None
    assert [part[:2] for part in when.form[1:3]] == [["version_order", ">="], ["version_order", "<"]]
