"""What a file's own text gives rise to: one finding for each problem of syntax, size, encoding or tags."""

from __future__ import annotations

import pytest

from memlint.ruleset.source_findings import RULES, problem_findings
from memlint.source import load


@pytest.mark.parametrize(
    ("data", "rule", "severity", "line"),
    [
        (b"a: 1\nb: [\n", "SRC001", "error", 3),
        (b"a: 1\nb: 2\na: 3\n", "SRC002", "warning", 3),
        (b"a: " + b"[" * 2_000 + b"\n", "SRC003", "error", 1),
        (b"a: \xff\n", "SRC004", "error", 1),
        (b"a: 1\nb: !!python/none x\n", "SRC005", "error", 2),
        (b"a: !!int x\n", "SRC005", "error", 1),
        (b"a: {% if b %}\n", "SRC006", "info", 1),
    ],
)
def test_a_problem_is_a_finding(data: bytes, rule: str, severity: str, line: int) -> None:
    found = problem_findings(load(data, "a.yaml")[0])[0]

    assert (found.rule, found.severity, found.location.path, found.location.line) == (rule, severity, "a.yaml", line)
    assert found.message and found.why and found.key.startswith(f"{rule}:")


def test_a_duplicate_key_says_where_it_stood_first() -> None:
    (found,) = problem_findings(load(b"a: 1\nb: 2\na: 3\n", "a.yaml")[0])
    assert [(place.line, label) for place, label in found.related] == [(1, "first here")]


def test_no_key_of_a_text_that_cannot_be_read_counts() -> None:
    assert [one.rule for one in problem_findings(load(b"a: 1\na: 2\nb: c: d\n", "a.yaml")[0])] == ["SRC001"]


def test_a_sound_text_has_none() -> None:
    assert problem_findings(load(b"a: 1\n", "a.yaml")[0]) == []


def test_a_rule_is_listed_once_by_each_name() -> None:
    assert len({(rule, name) for rule, name, _ in RULES}) == len(RULES)
