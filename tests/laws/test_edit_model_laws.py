"""In files that hold nothing unusual every edit is placed, and the text is what its author would have typed.

A file is drawn as a model, written out, and edited; the model is edited in the same way. Both must agree to the
last character: an edit that is refused without need, or that moves a neighbour, shows here.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.findings import Edit, Patch
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.pieces import as_patches, splice, whole
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.source import load

keys = st.sampled_from(["a", "bf16", "lr", "rank", "steps", "stage"])
plain = st.booleans() | st.integers(-9, 10**6) | st.sampled_from(["auto", "full", "x y"])


def edited(text: str, name: str, edit: Edit) -> str:
    (document,) = load(text.encode(), name)
    found = patches(document, [edit])
    assert broken(document, [edit], found) == ()
    return apply(document.text, found)


def inserted(value: dict[str, Any], key: str, item: Any, near: str) -> dict[str, Any]:
    """`value` with a new key after `near`, else last."""
    pairs = [pair for old in value.items() for pair in ([old, (key, item)] if old[0] == near else [old])]
    return dict(pairs) if near in value else {**value, key: item}


def changed(value: dict[str, Any], edit: Edit, path: tuple[Any, ...]) -> dict[str, Any]:
    """What an edit makes of a model, the order of keys included."""
    key, *rest = path
    if rest:
        return {**value, key: changed(value.get(key, {}), edit, tuple(rest))}
    if edit.action == "remove":
        return {old: item for old, item in value.items() if old != key}
    if edit.action == "rename":
        return {edit.value if old == key else old: item for old, item in value.items()}
    return {**value, key: edit.value} if key in value else inserted(value, key, edit.value, edit.near)


@st.composite
def edits(draw: st.DrawFn, value: dict[str, Any], name: str) -> Edit:
    """An edit that `value` has a place for."""
    pointer: tuple[str, ...] = ()
    here = value
    while inner := [key for key in here if isinstance(here[key], dict)]:
        if draw(st.booleans()):
            break
        pointer += (draw(st.sampled_from(inner)),)
        here = here[pointer[-1]]
    free = sorted({"a", "bf16", "lr", "rank", "steps", "stage", "new"} - set(here))
    action = draw(st.sampled_from(["add", "set", "remove", "rename"] if here else ["add"]))
    if action == "add":
        near = draw(st.sampled_from(["", "absent", *here]))
        return Edit(name, (*pointer, draw(st.sampled_from(free))), "set", draw(plain), near=near)
    wanted = {"set": draw(plain), "remove": None, "rename": draw(st.sampled_from(free))}[action]
    return Edit(name, (*pointer, draw(st.sampled_from([*here]))), action, wanted)


trees = st.recursive(
    st.dictionaries(keys, plain, max_size=4),
    lambda inner: st.dictionaries(keys, plain | inner | st.lists(plain, min_size=1, max_size=2), max_size=4),
    max_leaves=6,
)


@settings(max_examples=400, deadline=None)
@given(trees, st.sampled_from([None, 2, 4, "\t"]), st.sampled_from(["\n", "\r\n"]), st.data())
def test_a_written_json_file_stays_as_written(value: dict[str, Any], indent: Any, newline: str, data: Any) -> None:
    edit = data.draw(edits(value, "x.json"))
    wanted = changed(value, edit, edit.pointer)
    text = json.dumps(value, indent=indent).replace("\n", newline)

    result = edited(text, "x.json", edit)

    assert json.dumps(json.loads(result)) == json.dumps(wanted)  # the order of keys included
    if all(_inner(at, edit.pointer[:-1]) for at in (value, wanted)):
        assert result == json.dumps(wanted, indent=indent).replace("\n", newline)


def _inner(value: dict[str, Any], path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def test_a_json_object_that_becomes_empty_or_ceases_to_be_keeps_to_its_braces() -> None:
    cases = {
        ('{"a": {}}', ("a", "b")): '{"a": {"b": 1}}',
        ('{"aa": {}}', ("aa", "b")): '{"aa": {"b": 1}}',
        ('{"a": { }}', ("a", "b")): '{"a": {"b": 1}}',
        ('{"a": {\n}}', ("a", "b")): '{"a": {"b": 1}}',
        ('{"a": null}', ("a", "b")): '{"a": {"b": 1}}',
        ('{"a": 1}', ("b", "c", "d")): '{"a": 1, "b": {"c": {"d": 1}}}',
    }
    for (text, pointer), wanted in cases.items():
        assert edited(text, "x.json", Edit("x.json", pointer, "set", 1)) == wanted
    for text, wanted in {'{"a": {"b": 2}}': '{"a": {}}', '{"aa":{"b":2}}': '{"aa":{}}'}.items():
        pointer = (next(iter(json.loads(text))), "b")
        assert edited(text, "x.json", Edit("x.json", pointer, "remove")) == wanted


# YAML: a row is (key, value, comment); the value of a key that is a mapping of rows is a list of rows, a flow mapping
# is a dict.
Row = tuple[str, Any, str]
comments = st.sampled_from(["", "", "  # why", " # a: b"])


@st.composite
def rows(draw: st.DrawFn, depth: int = 2) -> list[Row]:
    found = []
    for key in draw(st.lists(keys, min_size=1, max_size=4, unique=True)):
        kind = draw(st.sampled_from(["plain", "plain", "flow", "block"] if depth else ["plain"]))
        value: Any = draw(plain)
        if kind == "flow":
            value = draw(st.dictionaries(keys, plain, max_size=3))
        elif kind == "block":
            value = draw(rows(depth - 1))
        found.append((key, value, draw(comments)))
    return found


def said(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {said(item)}" for key, item in value.items()) + "}"
    return json.dumps(value) if isinstance(value, (bool, int)) else str(value)


def lines(found: list[Row], step: str, indent: str = "") -> list[str]:
    written = []
    for key, value, comment in found:
        inner = isinstance(value, list)
        written.append(f"{indent}{key}:{'' if inner else ' ' + said(value)}{comment}")
        written += lines(value, step, indent + step) if inner else []
    return written


def meaning(found: list[Row]) -> dict[str, Any]:
    return {key: meaning(value) if isinstance(value, list) else value for key, value, _ in found}


def expected_lines(found: list[Row], edit: Edit, step: str, indent: str = "", depth: int = 0) -> list[str]:
    """The lines after the edit: as `lines`, only that the edit's own place changes."""
    key, last = edit.pointer[depth], depth == len(edit.pointer) - 1
    written: list[str] = []
    for row in found:
        own = lines([row], step, indent)
        if row[0] == key and last:
            own = _own(row, edit, own, indent)
        elif row[0] == key and isinstance(row[1], list):
            own = [own[0], *expected_lines(row[1], edit, step, indent + step, depth + 1)]
        elif row[0] == key:
            inside = changed(row[1], edit._replace(near=""), edit.pointer[depth + 1 :])  # between braces: last
            own = lines([(key, inside, row[2])], step, indent)
        written += own
        if last and _comes_after(row, found, key, edit):
            written.append(f"{indent}{key}: {said(edit.value)}")
    return written


def _own(row: Row, edit: Edit, own: list[str], indent: str) -> list[str]:
    key, value, comment = row
    if edit.action == "rename":
        return [own[0].replace(key, edit.value, 1), *own[1:]]
    if edit.action == "remove":
        kept = _last(row)
        return [indent + kept.strip()] if kept else []
    return [f"{indent}{key}: {said(edit.value)}{'' if isinstance(value, list) else comment}"]


def _last(row: Row) -> str:
    """The comment on the last line of a row."""
    return _last(row[1][-1]) if isinstance(row[1], list) else row[2]


def _comes_after(row: Row, found: list[Row], key: str, edit: Edit) -> bool:
    names = [name for name, _, _ in found]
    return edit.action == "set" and key not in names and row[0] == (edit.near if edit.near in names else names[-1])


def refusable(found: list[Row], edit: Edit) -> bool:
    """Whether the place is one that would lose comments, or leave nothing behind."""
    here: Any = found
    for key in edit.pointer[:-1]:
        here = next(value for name, value, _ in here if name == key) if isinstance(here, list) else here[key]
    if not isinstance(here, list):
        return False
    own = next((row for row in here if row[0] == edit.pointer[-1]), None)
    last = edit.action == "remove" and len(here) == 1
    if own is None or not isinstance(own[1], list) or edit.action == "rename":
        return last
    inside = "\n".join(lines([own], " "))
    return last or "#" in (inside.removesuffix(_last(own)) if edit.action == "remove" else inside)


@settings(max_examples=600, deadline=None)
@given(rows(), st.sampled_from(["  ", "    "]), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.data())
def test_a_written_yaml_file_stays_as_written(
    found: list[Row], step: str, newline: str, closed: bool, data: st.DataObject
) -> None:
    edit = data.draw(edits(meaning(found), "x.yaml"))
    end = newline if closed else ""
    text = newline.join(lines(found, step)) + end
    newline = newline if newline in text else "\n"  # nothing says another
    if refusable(found, edit):
        with pytest.raises(CannotEdit):
            edited(text, "x.yaml", edit)
        return

    wanted = newline.join(expected_lines(found, edit, step))

    assert edited(text, "x.yaml", edit) in (wanted + end, wanted + newline, wanted)
    if edit.action != "remove":
        assert edited(text, "x.yaml", edit) == wanted + end


@settings(max_examples=200, deadline=None)
@given(
    st.text("abc", max_size=8), st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.text("XY", max_size=3)))
)
def test_patches_one_after_the_other_are_told_as_patches_of_the_first_text(
    text: str, moves: list[tuple[int, int, str]]
) -> None:
    current, pieces = text, whole(text)
    for start, length, new in moves:
        begin = min(start, len(current))
        patch = Patch("f", begin, min(begin + length, len(current)), new)
        current, pieces = apply(current, (patch,)), splice(pieces, patch)
    told = as_patches(pieces, "f", len(text))

    assert apply(text, told) == current
    assert all(one.end < other.start for one, other in itertools.pairwise(told))
    assert all(one.text or one.end > one.start for one in told)
    assert as_patches(whole(text), "f", len(text)) == ()


def test_patches_are_applied_whatever_their_order() -> None:
    """One that only inserts stands before the one that replaces from the same place on."""
    found = (Patch("f", 2, 2, "X"), Patch("f", 2, 4, "Y"), Patch("f", 5, 6, ""))

    assert {apply("abcdef", order) for order in itertools.permutations(found)} == {"abXYe"}
