"""Whatever the file looks like: a placed edit keeps laws 1 - 4, or is refused. Nothing else can happen."""

from __future__ import annotations

import json
import os
from typing import Any

from hypothesis import given, note, settings
from hypothesis import strategies as st

from memlint.findings import Edit
from memlint.fixes.edits.apply import apply, patches
from memlint.fixes.edits.reread import reread
from memlint.fixes.edits.text import CannotEdit
from memlint.fixes.laws import broken
from memlint.source import load
from memlint.source.document import Document

EXAMPLES = int(os.environ.get("MEMLINT_EDIT_EXAMPLES", "600"))

keys = st.sampled_from(["a", "bf16", "lr", "ключ", "deep speed", "zero_optimization", "x-y", "7"])
scalars = st.one_of(
    st.booleans(),
    st.none(),
    st.integers(-(10**12), 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(
        ["auto", "yes", "1e-5", "a: b", "# no", "Ünï ✓", "", " lead", "it's", 'say "x"', "null", "- x", "&a"]
    ),
)
comments = st.sampled_from(["", "  # why", " # ✓ ünï", "  # memlint: ignore[MEM001] x"])
between = st.sampled_from(["", "", "\n", "# a heading\n", "   # indented\n", "### train\n\n"])


@st.composite
def yaml_texts(draw: st.DrawFn) -> str:
    """Block mappings two levels deep with comments, flow values, anchors and odd indentation."""
    lines = [draw(st.sampled_from(["", "---\n", "# head\n"]))]
    names = draw(st.lists(keys, min_size=1, max_size=5, unique=True))
    for name in names:
        lines.append(draw(between))
        lines.append(draw(entry(name, "")))
    text = "".join(lines)
    text = text if draw(st.booleans()) else text.rstrip("\n")
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@st.composite
def entry(draw: st.DrawFn, name: str, indent: str) -> str:
    shape = draw(st.sampled_from(["scalar", "flow", "empty", "block", "list", "literal", "anchor", "alias"]))
    label = f"{indent}{_yaml(name)}:{draw(st.sampled_from([' ', '  ']))}"
    comment = draw(comments)
    inner = indent + draw(st.sampled_from(["  ", "    ", " "]))
    if shape == "flow":
        items = draw(st.lists(scalars, max_size=3))
        return f"{label}{draw(st.sampled_from([json.dumps(items), _flow_map(items)]))}{comment}\n"
    if shape == "empty":
        return f"{label.rstrip()}{comment}\n"
    if shape == "block":
        inside = draw(
            st.lists(st.tuples(keys, scalars, comments), min_size=1, max_size=3, unique_by=lambda item: item[0])
        )
        rows = "".join(f"{inner}{_yaml(key)}: {_yaml(value)}{note}\n" for key, value, note in inside)
        return f"{label.rstrip()}{comment}\n{rows}"
    if shape == "list":
        rows = "".join(f"{inner}- {_yaml(value)}\n" for value in draw(st.lists(scalars, min_size=1, max_size=3)))
        return f"{label.rstrip()}{comment}\n{rows}"
    if shape == "literal":
        return f"{label}|\n{inner}one # not a comment\n{inner}two\n"
    if shape == "anchor":
        return f"{label}&x {_yaml(draw(scalars))}{comment}\n"
    return f"{label}{_yaml(draw(scalars))}{comment}\n"


def _flow_map(items: list[Any]) -> str:
    return "{" + ", ".join(f"k{index}: {json.dumps(item)}" for index, item in enumerate(items)) + "}"


def _yaml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@st.composite
def edits_of(draw: st.DrawFn, value: Any, path: str) -> list[Edit]:
    found = []
    for _ in range(draw(st.integers(1, 3))):
        pointer: tuple[Any, ...] = (draw(keys),)
        below = value.get(pointer[0]) if isinstance(value, dict) else None
        if isinstance(below, dict) and draw(st.booleans()):
            pointer = (*pointer, draw(st.one_of(keys, st.sampled_from(sorted(map(str, below)) or ["k"]))))
        action = draw(st.sampled_from(["set", "set", "set", "remove", "rename"]))
        wanted = draw(st.one_of(scalars, st.lists(scalars, max_size=3))) if action == "set" else draw(keys)
        found.append(Edit(path, pointer, action, wanted))
    return found


def held(text: str, name: str, data: st.DataObject, dialect: str = "yaml11") -> None:
    documents = load(text.encode(), name, dialect=dialect)
    document = documents[0]
    edits = [data.draw(edits_of(document.value, name))[0] for _ in range(data.draw(st.integers(1, 2)))]
    note(f"{text!r} {edits!r}")
    try:
        found = patches(document, edits)
    except CannotEdit:
        return
    faults = broken(document, edits, found)
    # Edits that contradict each other cannot all stand at the end.
    assert faults == () or _conflict(edits)
    if faults:
        return
    after = reread(document, apply(document.text, found))
    assert after is not None
    assert patches(after, edits) == ()


def _conflict(edits: list[Edit]) -> bool:
    touched = [edit.pointer for edit in edits] + [(*e.pointer[:-1], e.value) for e in edits if e.action == "rename"]
    return any(a[: len(b)] == b for i, a in enumerate(touched) for j, b in enumerate(touched) if i != j)


@settings(max_examples=EXAMPLES, deadline=None)
@given(yaml_texts(), st.sampled_from(["yaml11", "omegaconf"]), st.data())
def test_yaml_edits_keep_the_laws_or_are_refused(text: str, dialect: str, data: st.DataObject) -> None:
    held(text, "x.yaml", data, dialect)


json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=8
)


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(st.dictionaries(keys, json_values, max_size=5), st.sampled_from([None, 2, 4, "\t"]), st.data())
def test_json_edits_keep_the_laws_or_are_refused(value: dict[str, Any], indent: Any, data: st.DataObject) -> None:
    held(json.dumps(value, indent=indent, ensure_ascii=False), "x.json", data)


def one_by_one(document: Document, edits: list[Edit]) -> str | None:
    """The text with the edits made one after the other, and read again after each; None where one has no place."""
    for edit in edits:
        try:
            text = apply(document.text, patches(document, (edit,)))
        except CannotEdit:
            return None
        after = reread(document, text)
        assert after is not None
        document = after._replace(newline=document.newline)
    return document.text


@settings(max_examples=EXAMPLES // 2, deadline=None)
@given(yaml_texts(), st.data())
def test_edits_that_wait_for_each_other_make_the_same_text(text: str, data: st.DataObject) -> None:
    document = load(text.encode(), "x.yaml")[0]
    edits = [data.draw(edits_of(document.value, "x.yaml"))[0] for _ in range(data.draw(st.integers(2, 4)))]
    note(f"{text!r} {edits!r}")
    wanted = one_by_one(document, edits)
    try:
        together = apply(document.text, patches(document, edits))
    except CannotEdit:
        assert wanted is None
        return
    assert wanted is None or together == wanted
