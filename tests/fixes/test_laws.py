"""The laws themselves: each is shown a write that breaks it, and says so."""

from __future__ import annotations

import pytest

from memlint.findings import Edit, Finding, Location, Patch
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.laws import broken, unsolved
from memlint.source import load
from memlint.source.document import Document

TEXT = "a: 1  # first\nb: 2\n# between\nc:\n  d: 3\n"


def document(text: str = TEXT, path: str = "f.yaml") -> Document:
    return load(text.encode(), path)[0]


def replaced(old: str, new: str, text: str = TEXT) -> Patch:
    start = text.index(old)
    return Patch("f.yaml", start, start + len(old), new)


def laws(edits: list[Edit], found: list[Patch], text: str = TEXT) -> set[str]:
    return {one.law for one in broken(document(text), edits, tuple(found))}


SET = Edit("f.yaml", ("b",), "set", 5)


def test_a_write_that_does_what_it_says_breaks_nothing() -> None:
    own = patches(document(), (SET,))
    assert laws([SET], list(own)) == set()


@pytest.mark.parametrize("value", ["1", "5", "7"])
def test_another_value_is_told_whether_it_is_smaller_or_larger(value: str) -> None:
    other = Edit("f.yaml", ("b",), "set", 6)
    assert "value" in laws([other], [replaced("2", value)])


def test_a_value_beside_the_declared_one_is_told() -> None:
    assert "value" in laws([SET], [replaced("b: 2", "b: 5"), replaced("d: 3", "d: 4")])


@pytest.mark.parametrize(("old", "new"), [("a: 1 ", "a:  1"), ("  d: 3", "   d: 3")])
def test_a_byte_outside_of_the_patches_is_told(monkeypatch: pytest.MonkeyPatch, old: str, new: str) -> None:
    """Before the patch, and behind it: a value that loads alike is no excuse."""
    own = patches(document(), (SET,))
    monkeypatch.setattr("memlint.fixes.laws.apply", lambda text, found: apply(text, found).replace(old, new))
    assert laws([SET], list(own)) == {"bytes"}


@pytest.mark.parametrize("comment", ["# aaa", "# zzz", ""])
def test_a_comment_that_changes_or_goes_is_told(comment: str) -> None:
    assert "bytes" in laws([SET], [replaced("b: 2\n# between", f"b: 5\n{comment}")])


def test_comments_that_trade_places_are_told() -> None:
    assert "bytes" in laws(
        [SET], [replaced("# first", "# between"), replaced("b: 2", "b: 5"), replaced("# between", "# first")]
    )


def test_at_most_three_lost_comments_are_named() -> None:
    text = "# a\n# b\n# c\n# d\nx: 1\n"
    (edit, patch) = Edit("f.yaml", ("x",), "set", 2), Patch("f.yaml", 0, len(text), "x: 2\n")

    (fault,) = (one for one in broken(document(text), [edit], (patch,)) if one.law == "bytes")

    assert fault.detail == "comments changed: a, b, c"


def test_what_no_longer_parses_is_told() -> None:
    assert laws([SET], [replaced("b: 2", "b: [5")]) >= {"parses"}
    assert laws([SET], [replaced("b: 2", "b: 5\n---")]) == {"parses"}


def test_an_edit_that_would_be_placed_again_is_told() -> None:
    assert "idempotent" in laws([SET], [])


def test_an_edit_whose_place_is_gone_is_told() -> None:
    assert {"value"} <= laws([Edit("f.yaml", ("x", "y"), "remove")], [replaced("b: 2", "b: 5")])


def finding(rule: str, severity: str = "warning", key: str = "k", path: str = "f.yaml") -> Finding:
    return Finding(rule, f"x/{rule.lower()}", severity, "text", Location(path, 1, 1, 1, 1), key=key)


GONE = finding("AAA001")


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ([], []),
        ([finding("BBB001")], []),  # was there before
        ([GONE], ["would still be there"]),
        ([finding("BBB001"), finding("BBB001")], ["bring", "bring"]),
        ([GONE, GONE], ["would still be there", "bring", "bring"]),  # more of it than before
        ([finding("CCC001")], ["bring"]),
        ([finding("CCC001", "error")], ["bring"]),
        ([finding("CCC001", "info")], []),  # less severe
        ([finding("BBB001", key="other")], ["bring"]),
        ([finding("BBB001", path="g.yaml")], ["bring"]),
        ([finding("OFF001")], []),  # room to spare now
        ([finding("PAR002"), finding("PAR006")], []),  # a bucket larger than what is left of the gradients
    ],
)
def test_the_finding_goes_and_nothing_as_severe_comes(after: list[Finding], says: list[str]) -> None:
    told = unsolved(GONE, [GONE, finding("BBB001")], after)
    assert len(told) == len(says)
    assert all(word in one.detail and one.law == "finding" for word, one in zip(says, told, strict=True))


def test_one_of_two_equal_findings_may_go_alone() -> None:
    assert unsolved(GONE, [GONE, GONE], [GONE]) == ()
    assert [one.law for one in unsolved(GONE, [GONE, GONE], [GONE, GONE])] == ["finding"]
