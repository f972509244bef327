"""The settings table of a pyproject.toml: its values are those of a TOML parser, and every key has its place."""

from __future__ import annotations

import pytest

from memlint.settings.toml import section
from memlint.source.document import Document

OVERRIDES = "[[tool.memlint.overrides]]"


def read(text: str) -> Document:
    found = section(text.encode(), "pyproject.toml")
    assert found is not None
    return found


def key_at(document: Document, *path: str | int) -> tuple[int, int]:
    key = document.places[path].key
    assert key is not None
    return key.line, key.column


@pytest.mark.parametrize(
    "text", ["", "[tool.other]\na = 1\n", "[tool]\nx = 'memlint'\n", "[project]\nname = 'memlint'\n"]
)
def test_a_file_without_the_table_is_none(text: str) -> None:
    assert section(text.encode(), "pyproject.toml") is None


def test_values_and_places() -> None:
    document = read("[project]\nname = 'x'\n\n[tool.memlint]\ngpu = 'H100'  # ours\n  gpus=8\n")

    assert document.value == {"gpu": "H100", "gpus": 8} and document.problems == ()
    assert (key_at(document, "gpu"), key_at(document, "gpus")) == ((5, 1), (6, 3))
    assert document.places["gpu",].value.column == 7


@pytest.mark.parametrize("header", ["[tool.memlint]", "[ tool . memlint ]", '["tool".memlint]', "[tool.'memlint']"])
def test_headers_may_be_written_in_any_way(header: str) -> None:
    assert key_at(read(f"{header}\ngpus = 8\n"), "gpus") == (2, 1)


@pytest.mark.parametrize(
    ("text", "path", "place"),
    [
        ("tool.memlint.gpus = 8\n", ("gpus",), (1, 1)),
        ("[tool]\nmemlint.gpus = 8\n", ("gpus",), (2, 1)),
        ("[tool.memlint.versions]\ntrl = '1.0'\n", ("versions", "trl"), (2, 1)),
        ("[tool.memlint]\nversions.trl = '1.0'\n", ("versions", "trl"), (2, 1)),
        ("[tool.memlint]\nignore = [\n  'a',\n  'b',\n]\ngpus = 8\n", ("gpus",), (6, 1)),
        ("[tool.memlint]\nignore = ['[', # [\n]\ngpus = 8\n", ("gpus",), (4, 1)),
        ("[other]\ntext = '''\n[tool.memlint]\ngpus = 1\n'''\n[tool.memlint]\ngpus = 8\n", ("gpus",), (7, 1)),
        ('[other]\ntext = """one line"""\n[tool.memlint]\ngpus = 8\n', ("gpus",), (4, 1)),
        ("[tool.memlint]\n# it's '''\ngpus = 8 # '''\ngpu = 'H100'\n", ("gpu",), (4, 1)),
        ("[tool.memlint]\nignore = ['''\na''',\n  'b']\ngpus = 8\n", ("gpus",), (5, 1)),
        (f"{OVERRIDES}\nfiles = 'a'\n{OVERRIDES}\nfiles = 'b'\n", ("overrides", 1, "files"), (4, 1)),
        (f"{OVERRIDES}\n[tool.memlint.overrides.versions]\ntrl = '1'\n", ("overrides", 0, "versions", "trl"), (3, 1)),
        ("[tool.memlint]\r\n\r\ngpus = 8\r\n", ("gpus",), (3, 1)),
    ],
)
def test_a_key_has_its_place(text: str, path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    assert key_at(read(text), *path) == place


@pytest.mark.parametrize(
    ("text", "line"), [("[tool.memlint]\ngpus = \n", 2), ("[tool.memlint]\na = 1\na = 2\n", 3), ("[tool.memlint", 1)]
)
def test_what_is_no_toml_is_a_problem_at_its_line(text: str, line: int) -> None:
    (problem,) = read(text).problems
    assert problem.fatal and problem.message.startswith("not TOML: ") and problem.span.line == line


def test_dates_are_text_and_deep_values_are_cut() -> None:
    assert read("[tool.memlint]\nuntil = 2026-12-31\n").value == {"until": "2026-12-31"}
    deep = read("[tool.memlint]\na = " + "[" * 80 + "]" * 80 + "\n").value["a"]
    depth = 0
    while isinstance(deep, list) and deep:
        depth, deep = depth + 1, deep[0]
    assert depth < 64


def test_bytes_that_are_no_text_are_a_problem() -> None:
    document = section(b"[tool.memlint]\ngpu = '\xff'\n", "pyproject.toml")
    assert document is not None and document.problems and document.value is None
