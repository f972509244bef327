from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.findings import Finding, Location
from memlint.source.encoding import MAX_BYTES
from memlint.suppressions.baseline import BaselineError, advice, compare, count, read, shrink, write


def finding(path: str = "a.yaml", rule: str = "MEM001", key: str = "k", line: int = 1) -> Finding:
    return Finding(rule, "memory/x", "error", f"{line} GiB", Location(path, line, 1, line, 2), key=key)


FINDINGS = st.lists(
    st.builds(finding, st.sampled_from(["a.yaml", "b/c.json", "caf\udce9.yaml"]), st.sampled_from(["MEM001", "ATT001"]),
              st.text(max_size=3), st.integers(1, 99)), max_size=12)  # fmt: skip


@given(FINDINGS)
def test_what_is_written_is_read_and_accepts_all(findings: list[Finding]) -> None:
    baseline = count(findings)

    assert read(write(baseline).encode("utf-8"), "b.json") == baseline
    assert compare(findings, baseline) == ((), tuple(findings), {})


@given(FINDINGS, FINDINGS)
def test_a_baseline_only_shrinks(before: list[Finding], after: list[Finding]) -> None:
    baseline = count(before)
    compared = compare(after, baseline)
    smaller = shrink(baseline, compared.gone)

    assert len(compared.new) + len(compared.accepted) == len(after)
    assert smaller == count(compared.accepted)
    assert all(baseline[key] >= number for key, number in smaller.items())


def test_lines_and_numbers_do_not_matter() -> None:
    assert compare([finding(line=9)], count([finding(line=1)])).new == ()


def test_one_more_of_the_same_is_new() -> None:
    compared = compare([finding(line=1), finding(line=2)], count([finding()]))

    assert [item.location.line for item in compared.new] == [2]


def test_files_that_were_not_looked_at_are_not_gone() -> None:
    baseline = count([finding("a.yaml"), finding("b.yaml")])

    assert list(compare([], baseline, files=["a.yaml"]).gone) == [("a.yaml", "MEM001", "k")]


def test_it_says_when_it_can_shrink() -> None:
    assert advice({}) == ""
    assert "1 accepted finding is gone" in advice({("a", "b", "c"): 1})
    assert "--write-baseline" in advice({("a", "b", "c"): 3})


def test_the_text_does_not_depend_on_order() -> None:
    findings = [finding(key=key) for key in "cab"]

    assert write(count(findings)) == write(count(findings[::-1]))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "b.json:1:1: "),
        ("[]", "not a baseline"),
        ('{"version": 2, "files": {}}', "not a baseline"),
        ('{"version": 1, "files": {"a": 1}}', "a: a mapping"),
        ('{"version": 1, "files": {"a": {"r": 1}}}', "a r: a mapping"),
        ('{"version": 1, "files": {"a": {"r": {"k": 0}}}}', "a count"),
        ('{"version": 1, "files": {"a": {"r": {"k": true}}}}', "a count"),
    ],
)
def test_what_is_no_baseline_is_refused(text: str, part: str) -> None:
    with pytest.raises(BaselineError, match=r"b\.json:") as caught:
        read(text.encode(), "b.json")
    assert part in str(caught.value)


def test_a_baseline_larger_than_any_config_is_read() -> None:
    counts = {(f"team/{index:06}.yaml", "MEM001", "MEM001:" + "x" * 60): 1 for index in range(60_000)}
    data = write(counts).encode()
    assert len(data) > MAX_BYTES

    assert read(data, "known.json") == counts


@pytest.mark.parametrize(("start", "filler"), [("", "["), ("{\n", " "), ("[", "9")])
def test_what_is_large_and_no_baseline_is_refused(start: str, filler: str) -> None:
    text = start + filler * (MAX_BYTES + 1)
    with pytest.raises(BaselineError, match=r"^known\.json:\d+:\d+: "):
        read(text.encode(), "known.json")
