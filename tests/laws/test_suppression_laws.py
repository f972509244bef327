"""Suppressing a finding removes exactly that one, and mending leaves no suppression without use."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.findings import Finding
from memlint.ruleset.places import location
from memlint.settings import FileSettings
from memlint.source import Comment, Document, Span, load
from memlint.suppressions.apply import apply, mend
from memlint.suppressions.directives import directives

RULES = ("MEM001", "MEM002", "ATT001")
NEWLINES = st.sampled_from(["\n", "\r\n"])


def document(lines: list[str], newline: str) -> Document:
    return load(newline.join([*lines, ""]).encode(), "a.yaml")[0]


def findings(read: Document) -> list[Finding]:
    return [Finding(rule, "x/y", "error", rule, location(read, (key,))) for key in read.value for rule in RULES]


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 6), st.data(), NEWLINES, st.booleans())
def test_a_suppression_removes_exactly_its_finding(size: int, data: st.DataObject, newline: str, above: bool) -> None:
    line, rule = data.draw(st.integers(0, size - 1)), data.draw(st.sampled_from(RULES))
    lines = [f"key{number}: '# {number}'" for number in range(size)]
    comment = f"# memlint: ignore[{rule}] why"
    if above:
        lines.insert(line, comment)
    else:
        lines[line] += f"  {comment}"
    read = document(lines, newline)
    found = apply(findings(read), read, FileSettings(require_reason=True), "2026-11-21")

    assert [(item.location.pointer, item.rule) for item, _ in found.suppressed] == [((f"key{line}",), rule)]
    assert len(found.remaining) == size * len(RULES) - 1
    assert found.extra == ()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(st.sampled_from([*RULES, "PEF001", "memory"]), min_size=1, max_size=3), max_size=5), NEWLINES)
def test_mending_leaves_nothing_unused_and_suppresses_the_same(comments: list[list[str]], newline: str) -> None:
    lines = [f"key{n}: 1  # memlint: ignore[{', '.join(rules)}]" for n, rules in enumerate(comments)] + ["last: 1"]
    before = document(lines, newline)
    hits = [item for item in findings(before) if item.rule != "ATT001"]
    first = apply(hits, before, FileSettings(), "2026-11-21")
    after = load(mend(before.text, first.extra).encode(), "a.yaml")[0]
    second = apply([item for item in findings(after) if item.rule != "ATT001"], after, FileSettings(), "2026-11-21")

    assert second.extra == ()
    assert after.value == before.value
    assert [item.location.pointer for item in second.remaining] == [item.location.pointer for item in first.remaining]


@settings(max_examples=300, deadline=None)
@given(
    st.text(max_size=40) | st.from_regex(r"\A(ignore(-file)?|gpus?|with|ingore)[\[=][A-Z0-9, \]]{0,12}[a-z= ]{0,12}\Z")
)
def test_no_comment_breaks_the_parser(text: str) -> None:
    said = directives([Comment(f"memlint: {text}", Span(0, 5, 1, 1, 1, 6), True)], "a.yaml")

    assert len(said.suppressions) + len(said.issues) <= 1
    assert said.facts or said.suppressions or said.issues
