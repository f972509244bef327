"""What a `# memlint:` comment may say, what it means, and where a malformed one is."""

from __future__ import annotations

import pytest

from memlint.source import comments, load
from memlint.suppressions.directives import Directives, directives


def said_in(text: str) -> Directives:
    return directives(comments(load(text.encode(), "a.yaml")[0]), "a.yaml")


def test_facts() -> None:
    text = "# memlint: gpu=A100-80GB gpus=8 with=a.yaml\na: 1  # memlint: with='b c.yaml' model=org/name\n"
    said = said_in(text)

    assert {name: value for name, (value, _) in said.facts.items() if name != "with"} == {
        "gpu": "A100-80GB",
        "gpus": "8",
        "model": "org/name",
    }
    assert [(value, span.line) for value, span in said.companions] == [("a.yaml", 1), ("b c.yaml", 2)]
    assert said.issues == ()


@pytest.mark.parametrize(
    ("comment", "part"),
    [
        ("ingore[MEM001]", "did you mean `ignore`"),
        ("ignore MEM001", "square brackets"),
        ("ignore[]", "names no rule"),
        ("ignore[mem_001]", "names no rule"),
        ("ignore[MEM001] until=tomorrow", "YYYY-MM-DD"),
        ("gup=H100", "did you mean `gpu`"),
        ("gpus=many", "whole number"),
        ("gpus=0", "whole number"),
        ("gpus=", "no value"),
        ("gpu", "did you mean `gpu`"),
        ("some words", "means nothing"),
        ("", "nothing behind"),
    ],
)
def test_a_malformed_comment_is_located(comment: str, part: str) -> None:
    (issue,) = said_in(f"a: 1\nb: 2 # memlint: {comment}\n").issues

    assert (issue.rule, issue.location.line, issue.location.column) == ("SUP004", 2, 6)
    assert part in issue.message


@pytest.mark.parametrize(
    ("said", "issue"),
    [
        ("gpus=1234567", ""),
        ("gpus=1", ""),
        ("transformers=4", ""),
        ("transformers=4.57.1", ""),
        ("transformers=new", "wants a version"),
        ("transformers=4.", "wants a version"),
        ("torch=1.2.3.4.5.6", ""),
        ("torch=1.2.3.4.5.6.7", "wants a version"),
        ("ignore-file[all]", ""),
        ("ignore-file", "square brackets"),
        ("gpus=12345678", "whole number"),
        ("gpus=0", "whole number"),
        ("gpus=-1", "whole number"),
        ("ignore[MEM001] until=2026-12-31", ""),
        ("ignore[MEM001] until=2026-13-31", "no date"),
        ("ignore[MEM001] until=20261231", "no date"),
        ("ignore[MEM001] until=2026-12-31x", "no date"),
        ("ignore[MEM001] until=abcdefghij", "no date"),
    ],
)
def test_the_bounds_of_what_a_comment_may_say(said: str, issue: str) -> None:
    found = said_in(f"# memlint: {said}\na: 1\n").issues
    assert [issue in item.message for item in found] == ([True] if issue else [])


@pytest.mark.parametrize(
    ("comment", "rules", "reason", "until", "whole_file"),
    [
        ("ignore[MEM001]", ("MEM001",), "", "", False),
        ("ignore [ MEM001 , attention ] - we know", ("MEM001", "attention"), "we know", "", False),
        ("ignore-file[all] old until=2026-12-31 model", ("all",), "old model", "2026-12-31", True),
    ],
)
def test_a_suppression(comment: str, rules: tuple[str, ...], reason: str, until: str, whole_file: bool) -> None:
    (found,) = said_in(f"# memlint: {comment}\na: 1\n").suppressions
    assert found[:4] == (rules, reason, until, whole_file)


def test_a_later_fact_replaces_an_earlier_one_and_companions_add_up() -> None:
    said = said_in("# memlint: gpu=A100-80GB with=a.yaml\n# memlint: gpu=H100 with=b.yaml\na: 1\n")

    assert (said.facts["gpu"][0], said.facts["gpu"][1].line) == ("H100", 2)
    assert [value for value, _ in said.companions] == ["a.yaml", "b.yaml"]


def test_comments_that_do_not_begin_with_the_word_say_nothing() -> None:
    assert said_in("# see memlint: gpus=x\n# a note\na: 1\n") == Directives()
