"""The snapshot of the shipped rules: equal to the files, and not believed once a file has changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from memlint.expressions.facts import Facts
from memlint.ruleset import rule_set, shipped
from memlint.ruleset import snapshot as rule_snapshot
from memlint.ruleset.rule import Body, Compiled, Rule
from memlint.ruleset.sources import from_files, snapshot_text
from memlint.ruleset.stamps import stamps
from memlint.run import Run
from memlint.shipped_data import folder


def plain(rule: Rule) -> tuple[object, ...]:
    """A rule as values that can be compared."""

    def form(expression: Compiled | None) -> object:
        return expression.form if expression else None

    fixes = [fix._replace(when=None, keys=tuple(fix.keys)) for fix in rule.fixes()]
    guards = [form(fix.when) for fix in rule.fixes()]
    body = rule.body()
    variables = {name: form(expression) for name, expression in body.variables.items()}
    values = rule._replace(body=Body, fixes=tuple, texts=tuple, check=None)
    return (*values, form(body.when), body.message, variables, fixes, guards, rule.texts())


def test_the_snapshot_says_what_the_files_say() -> None:
    read = rule_snapshot.read(snapshot_text().encode(), {})
    assert read is not None
    rules, listed = read[0], from_files(folder("rules"))

    assert [plain(rule) for rule in rules] == [plain(rule) for rule in listed]
    assert rules.names == tuple((rule.id, rule.name) for rule in listed)


@pytest.mark.parametrize("name", ["llamafactory", "verl", "a format that no rule names"])
def test_a_snapshot_has_the_index_of_each_format(name: str) -> None:
    read = rule_snapshot.read(snapshot_text().encode(), {})
    assert read is not None
    listed = rule_set.listed(from_files(folder("rules")))

    for keys in ({}, {"flash_attn": "fa2"}, {"lora_rank": 8, "bf16": True, "fp16": True}):
        facts = Facts(Run(name, "train.yaml"), None, {"config": keys})
        candidates = [rule.id for rule in read[0].candidates(facts, name)]
        assert candidates == [rule.id for rule in listed.candidates(facts, name)]


def test_a_check_decodes_the_rules_that_may_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = rule_snapshot._rule
    monkeypatch.setattr(rule_snapshot, "_rule", lambda lines: decoded.append(lines) or decode(lines))
    read = rule_snapshot.read(snapshot_text().encode(), {})
    assert read is not None
    facts = Facts(Run("llamafactory", "train.yaml"), None, {"config": {}})

    found = read[0].where(lambda rule: True).candidates(facts, "llamafactory")

    assert len(found) <= len(decoded) < len(read[0].names) / 4


def test_a_snapshot_of_another_version_is_not_read() -> None:
    text = snapshot_text().replace(f'"version": {rule_snapshot.VERSION}', '"version": 0', 1)

    assert rule_snapshot.read(text.encode(), {}) is None
    assert rule_snapshot.read(b"not json", {}) is None
    assert rule_snapshot.read(b"[]\n", {}) is None


def test_a_changed_rule_file_makes_the_snapshot_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = tmp_path / "rules"
    shutil.copytree(folder("rules"), rules)
    snapshot = tmp_path / "rules.json"
    monkeypatch.setattr(shipped, "SNAPSHOT", str(tmp_path / "elsewhere" / "rules.json"))
    assert shipped.from_snapshot(str(rules)) is None

    monkeypatch.setattr(shipped, "SNAPSHOT", str(snapshot))
    marks = stamps(str(rules))
    snapshot.write_text(rule_snapshot.dump(from_files(str(rules)), marks), encoding="utf-8")
    (tmp_path / "checkout").mkdir()
    moved = tmp_path / "checkout" / "rules"
    shutil.copytree(rules, moved)
    assert shipped.from_snapshot(str(moved)) is not None

    changed = next(moved.rglob("*.yaml"))
    changed.write_text(changed.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert shipped.from_snapshot(str(moved)) is None


def test_rules_in_python_keep_their_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "rules.json"
    monkeypatch.setattr(shipped, "SNAPSHOT", str(snapshot))
    snapshot.write_text(snapshot_text(), encoding="utf-8")
    rules = shipped.from_snapshot(folder("rules"))

    assert rules is not None
    assert [rule.id for rule in rules if rule.check] == ["DSP001", "MEM011", "MEM013", "OFF001"]
