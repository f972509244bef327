"""Edits as text: each case is a file, an edit, and the file that must come out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, expected, is_applied, patches
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.source import load

CASES = {
    "a value keeps its line's comment": ("a: 1  # why\nb: 2\n", ("a",), "set", 3, "a: 3  # why\nb: 2\n"),
    "quotes stay": ("a: 'x'\n", ("a",), "set", "y", "a: 'y'\n"),
    "a word that would read as a bool is quoted": ("a: x\n", ("a",), "set", "yes", 'a: "yes"\n'),
    "a small float reads back as a float": ("lr: 1\n", ("lr",), "set", 1e-5, "lr: 1.0e-5\n"),
    "a value without text": ("a:\nb: 2\n", ("a",), "set", True, "a: true\nb: 2\n"),
    "a value without text, with a comment": ("a:  # none yet\nb: 2\n", ("a",), "set", 1, "a: 1  # none yet\nb: 2\n"),
    "a new key at the end": ("a: 1\nb: 2  # two\n", ("c",), "set", 3, "a: 1\nb: 2  # two\nc: 3\n"),
    "a new key where no line break ends the file": ("a: 1", ("c",), "set", 3, "a: 1\nc: 3"),
    "a new key in a nested mapping": ("a:\n  b: 1\nz: 0\n", ("a", "c"), "set", 2, "a:\n  b: 1\n  c: 2\nz: 0\n"),
    "a new key in a mapping that is not there": ("z: 0\n", ("a", "c"), "set", 2, "z: 0\na: {c: 2}\n"),
    "a new key whose mapping is long": (
        "a: 1\nb:\n  c: 2\nz: 0",
        ("b", "d"),
        "set",
        {"first_of_them": "auto", "inner": {"x" * 40: 1, "y" * 40: True, "z": {}}, "last_of_them": [1, 2]},
        f"a: 1\nb:\n  c: 2\n  d:\n    first_of_them: auto\n    inner:\n      {'x' * 40}: 1\n      {'y' * 40}: true\n"
        "      z: {}\n    last_of_them: [1, 2]\nz: 0",
    ),
    "a new key in a flow mapping": ("a: {b: 1}\n", ("a", "c"), "set", 2, "a: {b: 1, c: 2}\n"),
    "a new key in an empty flow mapping": ("a: {}\n", ("a", "c"), "set", 2, "a: {c: 2}\n"),
    "line breaks of Windows": ("a: 1\r\nb: 2\r\n", ("c",), "set", 3, "a: 1\r\nb: 2\r\nc: 3\r\n"),
    "a block list becomes one line": ("a:\n  - 1\n  - 2\nb: 0\n", ("a",), "set", "all", "a: all\nb: 0\n"),
    "a block scalar": ("a: |\n  one\n  two\nb: 0\n", ("a",), "set", "x", "a: x\nb: 0\n"),
    "multibyte text before the place": ("é: ✓✓\nb: 2\n", ("b",), "set", 3, "é: ✓✓\nb: 3\n"),
    "a removed key takes its line": ("a: 1\nb: 2\n", ("a",), "remove", None, "b: 2\n"),
    "a removed key leaves its comment": ("a: 1  # why\nb: 2\n", ("a",), "remove", None, "# why\nb: 2\n"),
    "a removed block": ("a:\n  x: 1\n  y: 2\nb: 2\n", ("a",), "remove", None, "b: 2\n"),
    "a removed key whose value is a flow mapping": ("a: {b: 1}\nc: 2\n", ("a",), "remove", None, "c: 2\n"),
    "removed from a flow mapping": ("a: {b: 1, c: 2}\n", ("a", "b"), "remove", None, "a: {c: 2}\n"),
    "the last of a flow mapping removed": ("a: {b: 1, c: 2}\n", ("a", "c"), "remove", None, "a: {b: 1}\n"),
    "a renamed key": (
        "evaluation_strategy: no # x\n",
        ("evaluation_strategy",),
        "rename",
        "eval_strategy",
        "eval_strategy: no # x\n",
    ),
    "a list in place of a word": ("a: x\n", ("a",), "set", ["q_proj", "v_proj"], "a: [q_proj, v_proj]\n"),
    "a mapping where the value is null": ("a: null  # yet\n", ("a", "c"), "set", 2, "a: {c: 2}  # yet\n"),
    "a key that wants quotes": ("a: 1\n", ("a",), "rename", "b: c", '"b: c": 1\n'),
    "a text of two lines": ("a: x\n", ("a",), "set", "y\nz", 'a: "y\\nz"\n'),
    "a value that stands below its key": ("? a\n:\n  - 1\nb: 2\n", ("a",), "set", 3, "? a\n: 3\nb: 2\n"),
    "a removed key leaves what it says of the file": (
        "a: 1  # memlint: gpus=8\nb: 2\n",
        ("a",),
        "remove",
        None,
        "# memlint: gpus=8\nb: 2\n",
    ),
    "an indented key without a value": ("a:\n  b:\n  c: 1\n", ("a", "b"), "set", 1, "a:\n  b: 1\n  c: 1\n"),
    "a space before the colon": ("a : 1\nb :\n", ("b",), "set", 2, "a : 1\nb : 2\n"),
    "a literal becomes one line": ("a:\n  b: |\n    x\n  c: 1\n", ("a", "b"), "set", 2, "a:\n  b: 2\n  c: 1\n"),
    "a folded scalar, too": ("b: >-\n  x\nc: 1\n", ("b",), "set", 2, "b: 2\nc: 1\n"),
    "a value on the next line": ("b:\n  x\nc: 1\n", ("b",), "set", 2, "b: 2\nc: 1\n"),
    "a list item": ("a:\n- 1\n- 2\n", ("a", 1), "set", 3, "a:\n- 1\n- 3\n"),
    "a flow list item": ("a: [1, x]\n", ("a", 1), "set", "a, b", 'a: [1, "a, b"]\n'),
    "a quoted flow value": ("{a: 'x', b: 1}\n", ("a",), "set", "y", "{a: 'y', b: 1}\n"),
    "a flow mapping that ends in a comma": ("a: {b: 1,}\n", ("a", "c"), "set", 2, "a: {b: 1, c: 2}\n"),
    "a flow mapping over lines": ("a: {b: 1,\n  c: 2}\n", ("a", "d"), "set", 3, "a: {b: 1,\n  c: 2, d: 3}\n"),
    "the only one of a flow mapping removed": ("a: { b: 1 }\n", ("a", "b"), "remove", None, "a: {  }\n"),
    "the first, with space around": ("a: {b: 1 ,\tc: 2}\n", ("a", "b"), "remove", None, "a: {c: 2}\n"),
    "the last, on a line of its own": ("a: {b: 1\n  , c: 2}\n", ("a", "c"), "remove", None, "a: {b: 1\n  }\n"),
    "between others on lines": (
        "a: {b: 1,\n  c: 2,\n  d: 3}\n",
        ("a", "c"),
        "remove",
        None,
        "a: {b: 1,\n  \n  d: 3}\n",
    ),
    "a new key of an empty file": ("", ("a",), "set", 1, "a: 1\n"),
    "a new key of a file of comments": ("# x", ("a",), "set", 1, "# x\na: 1\n"),
    "a new key of a mapping without one": ("a:\nb: 1\n", ("a", "c"), "set", 2, "a: {c: 2}\nb: 1\n"),
    "two levels that are not there": ("z: 0\n", ("a", "b", "c"), "set", 1, "z: 0\na: {b: {c: 1}}\n"),
    "a new key after a list": ("a:\n- 1\n- 2\n", ("b",), "set", 1, "a:\n- 1\n- 2\nb: 1\n"),
    "a new key after a literal": ("a: |\n  x\n", ("b",), "set", 1, "a: |\n  x\nb: 1\n"),
    "a new key after a folded line": ("a: x\n  y\n", ("b",), "set", 1, "a: x\n  y\nb: 1\n"),
    "a new key where a folded line ends the file": ("a: x\n  y", ("b",), "set", 1, "a: x\n  y\nb: 1"),
    "a rename inside a flow mapping": ("a: {b: 1}\n", ("a", "b"), "rename", "c", "a: {c: 1}\n"),
    "a rename to a word that reads as a bool": ("a: 1\n", ("a",), "rename", "on", '"on": 1\n'),
    "an explicit key": ("? a\n: 1\nb: 2\n", ("a",), "set", 2, "? a\n: 2\nb: 2\n"),
    "a key inside a list item": ("- a: 1\n  b: 2\n", (0, "c"), "set", 3, "- a: 1\n  b: 2\n  c: 3\n"),
}

JSON_CASES = {
    "a number": ('{\n  "a": 1,\n  "b": 2\n}\n', ("a",), "set", 5e7, '{\n  "a": 50000000.0,\n  "b": 2\n}\n'),
    "a new member": ('{\n  "a": 1\n}\n', ("b",), "set", True, '{\n  "a": 1,\n  "b": true\n}\n'),
    "a new member on one line": ('{"a": 1}', ("b",), "set", "x", '{"a": 1, "b": "x"}'),
    "a new member of an empty object": ("{}", ("b",), "set", 1, '{"b": 1}'),
    "an object where there is null": ('{"a": null}', ("a", "b"), "set", 1, '{"a": {"b": 1}}'),
    "a nested object that is not there": ('{\n  "a": 1\n}', ("z", "s"), "set", 3, '{\n  "a": 1,\n  "z": {"s": 3}\n}'),
    "removed first": ('{\n  "a": 1,\n  "b": 2\n}', ("a",), "remove", None, '{\n  "b": 2\n}'),
    "removed last": ('{\n  "a": 1,\n  "b": 2\n}', ("b",), "remove", None, '{\n  "a": 1\n}'),
    "the only member removed": ('{"z": {"b": 1 }, "a": 2}', ("z", "b"), "remove", None, '{"z": { }, "a": 2}'),
    "the only member of lines removed": (
        '{\n  "z": {\n    "b": 1\n  }\n}',
        ("z", "b"),
        "remove",
        None,
        '{\n  "z": {\n  }\n}',
    ),
    "renamed": ('{"a": 1}', ("a",), "rename", "b", '{"b": 1}'),
    "renamed below another of the new name": ('{"b": {"a": 1}}', ("b", "a"), "rename", "b", '{"b": {"b": 1}}'),
}


def edited(text: str, name: str, edit: Edit) -> str:
    (document,) = load(text.encode(), name)
    found = patches(document, [edit])
    assert broken(document, [edit], found) == ()
    return apply(document.text, found)


@pytest.mark.parametrize("case", CASES)
def test_yaml(case: str) -> None:
    text, pointer, action, value, wanted = CASES[case]

    assert edited(text, "x.yaml", Edit("x.yaml", pointer, action, value)) == wanted


@pytest.mark.parametrize("case", JSON_CASES)
def test_json(case: str) -> None:
    text, pointer, action, value, wanted = JSON_CASES[case]

    assert edited(text, "x.json", Edit("x.json", pointer, action, value)) == wanted


def test_a_value_far_down_keeps_the_space_before_it() -> None:
    head = "".join(f"k{number}: 1\n" for number in range(300))
    edit = Edit("x.yaml", ("b",), "set", 3)

    assert edited(f"{head}b:   2\n", "x.yaml", edit) == f"{head}b:   3\n"


def test_new_keys_stand_in_their_order() -> None:
    for text in ("a: 1\nz: {b: 2}\n", "a: 1\nz: {b: 2}"):
        (document,) = load(text.encode(), "f.yaml")
        added = [Edit("f.yaml", (key,), "set", number) for number, key in enumerate("dce")]
        found = patches(document, [Edit("f.yaml", ("a",), "set", 5), *added])
        assert apply(text, found).rstrip("\n") == "a: 5\nz: {b: 2}\nd: 0\nc: 1\ne: 2"


def test_a_key_behind_a_new_one_waits_for_it() -> None:
    (document,) = load(b"a: 1\nz: 2\n", "f.yaml")
    edits = [
        Edit("f.yaml", ("b",), "set", 2),
        Edit("f.yaml", ("c",), "set", 3),
        Edit("f.yaml", ("d",), "set", 4, near="b"),
    ]
    assert apply(document.text, patches(document, edits)) == "a: 1\nz: 2\nb: 2\nd: 4\nc: 3\n"


def test_a_new_key_stands_beside_its_neighbour() -> None:
    text = "### train\nbatch: 2\n\n### eval\nval: 1\n"
    edit = Edit("x.yaml", ("accumulation",), "set", 4, near="batch")

    assert edited(text, "x.yaml", edit) == "### train\nbatch: 2\naccumulation: 4\n\n### eval\nval: 1\n"


REFUSED = {
    "an alias": ("a: &x {b: 1}\nc: *x\n", ("c", "b"), "set", 2, "shared through a YAML alias"),
    "the only key": ("a: 1\n", ("a",), "remove", None, "the mapping would be left empty"),
    "a block that holds comments": (
        "a:\n  b: 1  # why\n  d: 2\nc: 1\n",
        ("a",),
        "set",
        1,
        "the block that would be replaced holds comments",
    ),
    "duplicate keys": ("a: 1\na: 2\n", ("a",), "set", 3, "the file says `a`"),
    "an anchored value": ("a: &x 1\nb: *x\n", ("a",), "set", 2, "the change would reach other values of the file"),
    "several documents": ("a: 1\n---\na: 2\n", ("a",), "set", 3, "the file holds several documents"),
    "an alias itself": ("a: &x 1\nb: *x\n", ("b",), "set", 2, "shared through a YAML alias"),
    "a value inside an alias": ("a: &x {c: {d: 1}}\nb: *x\n", ("b", "c", "d"), "set", 2, "shared through a YAML alias"),
    "the document": ("a: 1\n", (), "set", 2, "the whole document cannot be replaced"),
    "an empty list item": ("a:\n-\n- 1\n", ("a", 0), "set", 2, "an empty list item cannot be filled"),
    "a list item to add": ("a: [1]\n", ("a", 1), "set", 2, "a list item cannot be added"),
    "a list item to remove": ("a:\n- 1\n- 2\n", ("a", 0), "remove", None, "a list item cannot be removed"),
    "a key of a word": ("a: x\n", ("a", "b"), "set", 2, "`a` has no keys of its own"),
    "a key of a list": ("a:\n- 1\n", ("a", "b"), "set", 2, "`a` has no keys of its own"),
    "a key that is not there to rename": ("a: 1\n", ("b",), "rename", "c", "`b` is not there"),
    "a block whose last line has a comment": (
        "a:\n  b: 1  # why\nc: 1\n",
        ("a",),
        "set",
        1,
        "the block that would be replaced holds comments",
    ),
    "a block that holds anchors": (
        "a:\n  b: &x 1\nc: 1\n",
        ("a",),
        "set",
        1,
        "the block that would be replaced holds anchors",
    ),
    "a removed block that holds comments": (
        "a:\n  b: 1  # why\n  d: 2\nc: 1\n",
        ("a",),
        "remove",
        None,
        "the block that would be removed holds comments",
    ),
    "a removed line with a suppression": (
        "a: 1  # memlint: ignore[MEM001] x\nb: 1\n",
        ("a",),
        "remove",
        None,
        "the suppression on this line would cover the next key",
    ),
    "the first key of a list item": (
        "- a: 1\n  b: 1\n",
        (0, "a"),
        "remove",
        None,
        "the key does not start on a line of its own",
    ),
    "a key without a colon": ("? a\n", ("a",), "set", 1, "not followed by a colon"),
    "a comment between key and colon": ("? a # why\n:\n  - 1\n", ("a",), "set", 1, "not followed by a colon"),
    "an explicit key": ("? a\n: 1\n", ("b",), "set", 1, "the mapping does not start on a line of its own"),
    "a literal that ends the file": ("a: 1\nb: |\n  x", ("c",), "set", 1, "a line break after the block scalar"),
    "a flow mapping that ends in a comment": (
        "a: {b: 1, # why\n  }\n",
        ("a", "c"),
        "set",
        2,
        "the flow mapping ends in a comment",
    ),
    "a file that does not parse": ("a: [\n", ("a",), "set", 1, "the file does not parse"),
    "a rename onto a key that is set": ("a: 1\nb: 2\n", ("a",), "rename", "b", "`b` is set as well"),
    "a renamed list item": ("a: [1, 2]\n", ("a", 0), "rename", "b", "list item has no key"),
    "a key below a number": ("a: 5\n", ("a", "b"), "set", 1, "`a` has no keys"),
    "a mapping that starts within a line": ("? a\n: b: 1\n", ("a", "c"), "set", 3, "a line of its own"),
    "a file that ends in a block scalar": ("b: |\n  text", ("a",), "set", 3, "block scalar at the end"),
    "what YAML has no word for": ("a: 1\n", ("a",), "set", {1, 2}, "set has no YAML form"),
    "no number": ("a: 1\n", ("a",), "set", float("nan"), "no one-line YAML form"),
}


def refused(text: str, name: str, edit: Edit, reason: str) -> None:
    document = load(text.encode(), name)[0]

    with pytest.raises(CannotEdit, match=re.escape(reason)):
        patches(document, [edit])


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_safe_place_is_refused_with_the_reason(case: str) -> None:
    text, pointer, action, value, reason = REFUSED[case]

    refused(text, "x.yaml", Edit("x.yaml", pointer, action, value), reason)


def test_a_refusal_names_the_key() -> None:
    document = load(b"b: {c: 1}\n", "x.yaml")[0]
    with pytest.raises(CannotEdit, match="`gone`"):
        patches(document, [Edit("x.yaml", ("b", "gone"), "rename", "new")])


JSON_REFUSED = {
    "the document": ('{"a": 1}', (), "set", 2, "the whole document cannot be replaced"),
    "a list item to add": ('{"a": [1]}', ("a", 1), "set", 2, "a list item cannot be added"),
    "a list item to remove": ('{"a": [1, 2]}', ("a", 0), "remove", None, "a list item cannot be removed"),
    "a list item to rename": ('{"a": [1, 2]}', ("a", 0), "rename", "b", "a list item has no key"),
    "a key that is not there to rename": ('{"a": 1}', ("b",), "rename", "c", "`b` is not there"),
    "a rename onto a key that is set": ('{"a": 1, "b": 2}', ("a",), "rename", "b", "`b` is set as well"),
    "duplicate keys": ('{"a": 1, "a": 2}', ("a",), "set", 3, "the file says `a`"),
    "a key far below a number": ('{"z": {"a": 5}}', ("z", "a", "b"), "set", 1, "`z.a.b` does not lead to a mapping"),
    "a key of a list": ('{"a": [1]}', ("a", "b"), "set", 3, "does not lead to a mapping"),
    "a value that JSON cannot hold": ('{"a": 1}', ("a",), "set", float("nan"), "not JSON"),
}


@pytest.mark.parametrize("case", JSON_REFUSED)
def test_what_has_no_safe_place_in_json_is_refused(case: str) -> None:
    text, pointer, action, value, reason = JSON_REFUSED[case]

    refused(text, "x.json", Edit("x.json", pointer, action, value), reason)


SAID_TWICE = {
    "yaml": ("a: 1\nb: 1\na: 2\nc: {d: 1, d: 2, e: 1}\n", "x.yaml"),
    "json": ('{"a": 1, "b": 1, "a": 2, "c": {"d": 1, "d": 2, "e": 1}}', "x.json"),
}


@pytest.mark.parametrize("case", SAID_TWICE)
def test_what_a_file_says_twice_is_left_alone_and_the_rest_is_not(case: str) -> None:
    text, path = SAID_TWICE[case]
    for pointer in (("a",), ("c",), ("c", "d")):
        refused(text, path, Edit(path, pointer, "set", 3), f"the file says `{'.'.join(pointer)}`")
    done = edited(edited(text, path, Edit(path, ("b",), "set", 3)), path, Edit(path, ("c", "e"), "set", 4))
    assert load(done.encode(), path)[0].value == {"a": 2, "b": 3, "c": {"d": 2, "e": 4}}


STANDING = {
    "the value": ({"a": 1}, ("a",), "set", 1),
    "a list": ({"a": [1, 2]}, ("a",), "set", (1, 2)),
    "an item": ({"a": [1, 2]}, ("a", 1), "set", 2),
    "nothing to remove": ({"a": 1}, ("b", "c"), "remove", None),
    "no item to remove": ({"a": [1]}, ("a", 1), "remove", None),
    "renamed already": ({"b": 1}, ("a",), "rename", "b"),
    "its own name": ({"a": 1}, ("a",), "rename", "a"),
}
OPEN = {
    "another value": ({"a": 1}, ("a",), "set", 2),
    "a number of another kind": ({"a": 1}, ("a",), "set", 1.0),
    "true is not 1": ({"a": 1}, ("a",), "set", True),
    "no value": ({}, ("a",), "set", None),
    "a shorter list": ({"a": [1, 2]}, ("a",), "set", (1,)),
    "something to remove": ({"a": None}, ("a",), "remove", None),
    "an item to remove": ({"a": [1]}, ("a", 0), "remove", None),
    "something to rename": ({"a": 1}, ("a",), "rename", "b"),
    "two names": ({"a": 1, "b": 2}, ("a",), "rename", "b"),
    "a list has no last item but one": ({"a": [1]}, ("a", -1), "set", 1),
}


@pytest.mark.parametrize("case", [*STANDING, *OPEN])
def test_an_edit_stands_where_nothing_would_change(case: str) -> None:
    value, pointer, action, wanted = {**STANDING, **OPEN}[case]

    assert is_applied(value, Edit("x.yaml", pointer, action, wanted)) is (case in STANDING)


@pytest.mark.parametrize(
    ("value", "pointer", "action", "new", "wanted"),
    [
        ({"a": 1}, (), "set", (1, 2), [1, 2]),
        ({"a": [1, 2, 3]}, ("a", 1), "remove", None, {"a": [1, 3]}),
        ({"a": [1, 2, 3]}, ("a", 0), "set", 9, {"a": [9, 2, 3]}),
        ({"a": [{"b": 1}]}, ("a", 0, "b"), "remove", None, {"a": [{}]}),
        (None, ("a", "b"), "set", 1, {"a": {"b": 1}}),
        ({"a": 1, "b": 2}, ("a",), "rename", "c", {"c": 1, "b": 2}),
        ({"a": 1}, ("a", "b"), "set", 2, None),
        ({"a": 1}, ("a", 0), "set", 2, None),
        ({"a": [1]}, ("a", 1), "set", 2, None),
        ({"a": [1]}, ("a", "b"), "set", 2, None),
    ],
)
def test_what_an_edit_declares(value: Any, pointer: Any, action: str, new: Any, wanted: Any) -> None:
    """None: it declares nothing that could be."""
    edit = Edit("x.yaml", pointer, action, new)
    if wanted is None:
        with pytest.raises(CannotEdit, match="does not lead to a mapping"):
            expected(value, [edit])
    else:
        assert expected(value, [edit]) == wanted


def test_an_unknown_action_is_refused() -> None:
    with pytest.raises(CannotEdit, match="unknown action"):
        expected({"a": 1}, [Edit("x.yaml", ("a",), "replace", 2)])
