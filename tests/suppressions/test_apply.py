"""What comments and waivers in settings suppress, what they leave, and what is said of those that suppress nothing."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.findings import Finding
from memlint.ruleset.places import location
from memlint.run import Origin
from memlint.settings import FileSettings
from memlint.source import Document, load
from memlint.suppressions.apply import SuppressionResult, apply, mend, waiver_findings
from memlint.suppressions.waiver import Waiver

TODAY = "2026-11-21"
KNOWN = [("MEM001", "memory/over-the-card"), ("MEM002", "memory/tight"), ("ATT001", "attention/eager")]
DEFAULTS = FileSettings()
NAMES = dict(KNOWN) | {"MEM000": "internal/error"}


def document(text: str, path: str = "a.yaml") -> Document:
    return load(text.encode(), path)[0]


def at(text: Document, *pointer: str | int, rule: str = "MEM001") -> Finding:
    return Finding(rule, NAMES[rule], "error", "message", location(text, pointer))


def outcome(
    text: str, *findings: tuple[Any, ...], settings: FileSettings = DEFAULTS, **given: Any
) -> SuppressionResult:
    read = document(text)
    hits = [at(read, *pointer, rule=rule) for rule, *pointer in findings]
    return apply(hits, read, settings, TODAY, known=lambda: KNOWN, **given)


def rules(found: tuple[Finding, ...]) -> list[str]:
    return [item.rule for item in found]


@pytest.mark.parametrize(
    "selector", ["MEM001", "memory/over-the-card", "MEM", "memory", "memory/*", "all", "ATT, MEM001"]
)
def test_a_comment_on_the_line(selector: str) -> None:
    found = outcome(f"a: 1  # memlint: ignore[{selector}] we know\nb: 2\n", ("MEM001", "a"), ("MEM001", "b"))

    assert [item.location.line for item in found.remaining] == [2]
    assert [reason for _, reason in found.suppressed] == ["we know"]
    assert rules(found.extra) == (["SUP001"] if "ATT" in selector else [])


def test_another_rule_on_the_line_stays() -> None:
    found = outcome("a: 1  # memlint: ignore[MEM001]\n", ("MEM001", "a"), ("MEM002", "a"))

    assert rules(found.remaining) == ["MEM002"]


def test_a_comment_above_a_key_covers_what_is_in_it() -> None:
    text = "# memlint: ignore[MEM001]\n\n# more\na:\n  b: 1\n  c: [1,\n    2]\nd: 1\n"
    found = outcome(text, ("MEM001", "a"), ("MEM001", "a", "b"), ("MEM001", "a", "c", 1), ("MEM001", "d"))

    assert [item.location.pointer for item in found.remaining] == [("d",)]
    assert found.extra == ()


def test_a_comment_above_a_list_item_covers_the_item() -> None:
    text = "l:\n# memlint: ignore[MEM001]\n- a: 1\n  b: 2\n- a: 1\n"
    found = outcome(text, ("MEM001", "l", 0, "b"), ("MEM001", "l", 1, "a"))

    assert [item.location.pointer for item in found.remaining] == [("l", 1, "a")]


def test_a_block_scalar_does_not_reach_into_the_next_key() -> None:
    found = outcome("# memlint: ignore[MEM001]\na: |\n  x\nb: 1\n", ("MEM001", "a"), ("MEM001", "b"))

    assert [item.location.pointer for item in found.remaining] == [("b",)]


@pytest.mark.parametrize("literal", ["", "    x\n", "    x\n\n    y\n"])
def test_a_block_that_ends_in_a_literal_is_covered_whole(literal: str) -> None:
    text = f"# memlint: ignore[MEM001]\na:\n  b: 1\n  c: |\n{literal}d: 1\n"
    found = outcome(text, ("MEM001", "a", "b"), ("MEM001", "a", "c"), ("MEM001", "d"))

    assert [item.location.pointer for item in found.remaining] == [("d",)]


def test_a_comment_for_the_file() -> None:
    found = outcome(
        "a: 1\nb: 2\n# memlint: ignore-file[MEM001] all of it\n", ("MEM001", "a"), ("MEM001",), ("ATT001", "b")
    )

    assert rules(found.remaining) == ["ATT001"]
    assert len(found.suppressed) == 2


def test_text_that_looks_like_a_comment_suppresses_nothing() -> None:
    found = outcome("a: 'x # memlint: ignore[MEM001]'\n", ("MEM001", "a"))

    assert (rules(found.remaining), found.extra) == (["MEM001"], ())


def test_our_own_bug_is_never_suppressed() -> None:
    assert rules(outcome("a: 1  # memlint: ignore[all]\n", ("MEM000", "a")).remaining) == ["MEM000"]


@pytest.mark.parametrize("name", ["b.yaml", "0.yaml"])
def test_a_finding_in_another_file_stays(name: str) -> None:
    read = document("a: 1  # memlint: ignore[all]\n")
    elsewhere = at(document("a: 1\n", name), "a")

    assert apply([elsewhere], read, FileSettings(), TODAY).remaining == (elsewhere,)
    assert apply([elsewhere], read, FileSettings(waivers=(waiver(),)), TODAY).remaining == (elsewhere,)


@pytest.mark.parametrize("pointer", [("a",), ("c",), ("b", "c", "d"), ("b",)])
def test_a_waiver_covers_its_pointer_and_none_beside_it(pointer: tuple[str, ...]) -> None:
    read = document("a: 1\nb:\n  c: 2\n")
    found = apply([at(read, "b", "c")], read, FileSettings(waivers=(waiver(pointer),)), TODAY)

    assert rules(found.remaining) == ([] if pointer == ("b",) else ["MEM001"])


def test_what_a_comment_says_comes_before_what_settings_say() -> None:
    settings = FileSettings(waivers=(waiver(),))
    found = outcome("a: 1  # memlint: ignore[MEM001] here\n", ("MEM001", "a"), settings=settings)

    assert [reason for _, reason in found.suppressed] == ["here"]


def test_a_suppression_s_own_findings_have_id_and_name() -> None:
    found = outcome("a: 1  # memlint: ignore[MEM001]\nb: 1  # memlint: ignore[]\n")

    assert [(item.rule, item.name, item.severity) for item in found.extra] == [
        ("SUP004", "suppressions/malformed", "warning"),
        ("SUP001", "suppressions/unused", "info"),
    ]


@pytest.mark.parametrize(("until", "kept", "extra"), [(TODAY, [], []), ("2026-11-20", ["MEM001"], ["SUP002"])])
def test_a_suppression_holds_until_its_day(until: str, kept: list[str], extra: list[str]) -> None:
    found = outcome(f"a: 1  # memlint: ignore[MEM001] reason until={until}\n", ("MEM001", "a"))

    assert (rules(found.remaining), rules(found.extra)) == (kept, extra)


def test_an_unused_suppression_is_found_unless_the_rule_did_not_run() -> None:
    text = "a: 1  # memlint: ignore[MEM001]\n"

    assert rules(outcome(text).extra) == ["SUP001"]
    assert outcome(text, in_force=lambda: KNOWN[1:]).extra == ()


def test_a_rule_that_does_not_exist_is_said_to_be_none() -> None:
    (issue,) = outcome("a: 1\nb: 2 # memlint: ignore[MEM009]\n").extra

    assert (issue.rule, issue.location.line, issue.location.column) == ("SUP004", 2, 6)
    assert "did you mean MEM00" in issue.message


def test_a_reason_can_be_required() -> None:
    strict = FileSettings(require_reason=True)

    assert rules(outcome("a: 1 # memlint: ignore[MEM001]\n", ("MEM001", "a"), settings=strict).extra) == ["SUP003"]
    assert outcome("a: 1 # memlint: ignore[MEM001] x\n", ("MEM001", "a"), settings=strict).extra == ()


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("a: 1  # memlint: ignore[MEM001] x\nb: 2\n", "a: 1\nb: 2\n"),
        ("a: 1\n  # memlint: ignore[MEM001]\nb: 2\n", "a: 1\nb: 2\n"),
        ("a: 1\r\n# memlint: ignore[MEM001]\r\nb: 2\r\n", "a: 1\r\nb: 2\r\n"),
        ("b: 2\n# memlint: ignore-file[MEM001]", "b: 2\n"),
        ("b: 2  # memlint: ignore[MEM001, ATT001] why\n", "b: 2  # memlint: ignore[ATT001] why\n"),
        ("b: 2  # memlint: ignore[ATT001] why until=2020-01-01\n", "b: 2\n"),
    ],
)
def test_mending_removes_what_is_not_needed(text: str, mended: str) -> None:
    found = outcome(text, ("ATT001", "b"))

    assert mend(text, found.extra) == mended
    assert all(0 <= item.data["start"] < item.data["end"] <= len(text) for item in found.extra)
    assert [item for item in outcome(mended, ("ATT001", "b")).extra if "text" in item.data] == []


def waiver(pointer: tuple[str, ...] = (), until: str = "", reason: str = "known") -> Waiver:
    return Waiver(("MEM001",), pointer, reason, until, Origin("setting", "memlint.yaml", 3, 5))


def test_settings_suppress_below_a_pointer() -> None:
    read = document('{"z": {"list": [{"a": 1}], "b": 2}}', "ds.json")
    findings = [at(read, "z", "list", 0, "a"), at(read, "z", "b")]
    settings = FileSettings(waivers=(waiver(("z", "list", "0")),))
    found = apply(findings, read, settings, TODAY)

    assert [item.location.pointer for item in found.remaining] == [("z", "b")]
    assert found.suppressed == ((findings[0], "known"),)
    assert found.used == {settings.waivers[0]}
    assert waiver_findings(settings.waivers, found.used, TODAY) == ()


def test_waivers_that_are_unused_expired_or_without_reason() -> None:
    unused, expired, silent = waiver(), waiver(until="2020-01-01"), waiver(("a",), reason="")
    found = waiver_findings([unused, expired, silent], frozenset({silent}), TODAY, require_reason=True)

    assert rules(found) == ["SUP001", "SUP002", "SUP003"]
    assert {(item.location.path, item.location.line) for item in found} == {("memlint.yaml", 3)}
    read = document("a: 1\n")
    assert apply([at(read, "a")], read, FileSettings(waivers=(expired,)), TODAY).suppressed == ()


def test_a_comment_covers_a_block_to_its_last_line_and_no_further() -> None:
    text = "x: 0\n# memlint: ignore[MEM001]\na:\n  b: 1\n  c: 2\n\n\nd: 1\n"
    found = outcome(text, ("MEM001", "x"), ("MEM001", "a", "c"), ("MEM001", "d"))
    assert [item.location.pointer for item in found.remaining] == [("x",), ("d",)]
