"""TOML: its values are those of tomllib, and every `key = value` has its place."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memlint.source import load
from memlint.source.document import Document

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read(text: str) -> Document:
    (found,) = load(text.encode("utf-8", "surrogatepass"), "a.toml")
    return found


def value_at(document: Document, *path: str | int) -> str:
    span = document.places[path].value
    return document.text[span.start : span.end]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("a = 1 # one", "1"),
        ("a=1.5e-4", "1.5e-4"),
        ("a =\t'it # is' # two", "'it # is'"),
        ('a = "x\\"y" # z', '"x\\"y"'),
        ('a = """x\ny""" # z', '"""x\ny"""'),
        ("a = '''x'''", "'''x'''"),
        ('a = """x"""""', '"""x"""""'),
        ("a = 2026-12-31 10:00:00 # day", "2026-12-31 10:00:00"),
        ("a = [1, [2, ']'], # ]\n 3]", "[1, [2, ']'], # ]\n 3]"),
        ('a = {b = "}", c = [1]}  # x', '{b = "}", c = [1]}'),
        ("a = true", "true"),
    ],
)
def test_a_value_ends_where_it_ends(line: str, value: str) -> None:
    document = read(f"# first\n{line}\nz = 9\n")
    assert value_at(document, "a") == value and value_at(document, "z") == "9"


def test_what_lies_within_a_collection_has_the_place_of_its_key() -> None:
    document = read("a = {b = 1, c = [2]}\n")
    assert document.places["a", "b"].key is None
    assert value_at(document, "a", "c", 0) == "{b = 1, c = [2]}"


def test_tables_and_tables_of_arrays() -> None:
    document = read("[train.args]\nlr = 1e-4\n[[runs]]\nx = 1\n[[runs]]\nx = 2\ny.z = 3\n")
    assert document.value["train"]["args"]["lr"] == 1e-4
    assert [value_at(document, "runs", number, "x") for number in (0, 1)] == ["1", "2"]
    assert value_at(document, "runs", 1, "y", "z") == "3"


PIECES = st.sampled_from([
    "a", "b", " = ", "1", "'x'", '"y"', '"""', "'''", "[", "]", "[[", "]]", "{", "}", ",", "\n", "#", "\r\n", ".", "é",
    "2026-01-01", "true", "\\", "\t", "\0", "-", "inf",
])  # fmt: skip
_SCALARS = st.one_of(st.integers(-9, 9), st.booleans(), st.sampled_from(["'x#'", '"]"', "1e-3", "[1, 2]", "{q = 1}"]))


@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    document = read(text)
    for place in document.places.values():
        assert 0 <= place.value.start <= place.value.end <= len(document.text)
    if not document.problems:
        tomllib.loads(text)


@given(st.dictionaries(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), _SCALARS), min_size=1))
def test_the_text_at_a_place_is_its_value(tables: dict[str, dict[str, object]]) -> None:
    said = {True: "true", False: "false"}
    lines = []
    for name, keys in tables.items():
        lines.append(f"[{name}]  # {name}")
        lines += [f"  {key} = {said[value] if isinstance(value, bool) else value} # c" for key, value in keys.items()]
    document = read("\n".join(lines))
    assert document.problems == ()
    for name, keys in tables.items():
        for key in keys:
            read_again = tomllib.loads(f"v = {value_at(document, name, key)}")["v"]
            assert read_again == document.value[name][key]
