"""Laws over every framework's table of keys: what a row writes it reads, under each of its names."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint import formats
from memlint.formats.fields import Fields
from memlint.formats.keys import INVALID, KINDS, FieldChange, Key, Keys
from memlint.run import Method, Model, Origin, Run, ValueModel, get

TABLES: dict[str, Keys] = {
    path.parent.name: import_module(f"memlint.formats.{path.parent.name}.keys").KEYS
    for path in sorted(Path(formats.__file__).parent.glob("*/keys.py"))
}
ROWS = [pytest.param(row, id=f"{name}-{row.name}") for name, table in TABLES.items() for row in table]
PLAIN = [
    pytest.param(row, id=f"{name}-{row.name}")
    for name, table in TABLES.items()
    for row in table
    if row.field and row.is_read_here and row.read is None
]
EVERY_PART = Run("test", "", method=Method(value_model=ValueModel(Model())))
WORD = st.text("abcdefgh_0123", min_size=1, max_size=8)


def values(row: Key) -> st.SearchStrategy[Any]:
    """Values that a file may give the key."""
    if row.values is not None:
        return st.sampled_from(list(row.values))
    least, most = row.least or 0, row.most if row.most is not None else 10**9
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "flag": st.booleans(),
        "whole": st.integers(int(least), int(most)),
        "number": st.floats(least, most, allow_nan=False),
        "word": WORD,
        "text": WORD,
        "words": st.lists(WORD, max_size=3),
        "any": WORD,
    }
    return kinds[row.kind]


class File:
    """A file of one section, as tables read it."""

    def __init__(self, row: Key, section: dict[str, Any]) -> None:
        self.row, self.section = row, section

    def get(self, key: str) -> Any:
        name = self.written(key)
        return self.row.default if name is None else self.section[name]

    def written(self, key: str) -> str | None:
        return next((name for name in self.row.names if self.section.get(name) is not None), None)

    def origin(self, key: str) -> Origin:
        name = self.written(key)
        return Origin("default") if name is None else Origin("file", pointer=(name,))


def read(row: Key, section: dict[str, Any]) -> Fields:
    fields = Fields()
    Keys(row._replace(when=None)).read(fields, File(row, section), None)
    return fields


def test_there_are_tables() -> None:
    assert {"trainer", "training_arguments"} <= TABLES.keys()


@pytest.mark.parametrize("row", PLAIN)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_what_a_row_writes_is_what_it_reads(row: Key, data: st.DataObject) -> None:
    said = data.draw(values(row))
    meant = read(row, {row.name: said}).get(row.field)
    if row.read_only or row.can_write or row.can_add or row.write:
        assert row.neutral(row.written_value(meant)) == meant
        return
    written = Keys(row).write(FieldChange(row.field, meant, {row.field: meant}, {}, Run("test", "")))
    assert written is not None
    assert read(row, dict(written)).get(row.field) == meant


@pytest.mark.parametrize("row", PLAIN)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_every_spelling_says_the_same(row: Key, data: st.DataObject) -> None:
    said = data.draw(values(row))
    found = [read(row, {name: said}) for name in row.names]
    assert [fields.values for fields in found] == [found[0].values] * len(found)
    assert [fields.origins[row.field].pointer for fields in found] == [(name,) for name in row.names]


@pytest.mark.parametrize("row", PLAIN)
def test_a_default_is_a_value_of_the_key(row: Key) -> None:
    assert row.default is None or row.parsed(row.default) is not None


@pytest.mark.parametrize("row", ROWS)
def test_a_row_is_complete(row: Key) -> None:
    assert row.kind in KINDS
    assert row.invalid in INVALID
    for field in row.fields:
        get(EVERY_PART, field)  # raises where there is no such field
    assert row.about.endswith(".")
    if row.since is not None:
        assert row.older
        assert hasattr(Run("test", "").stack, row.since[0])


@pytest.mark.parametrize("name", TABLES)
def test_a_key_stands_in_one_row(name: str) -> None:
    names = [spelling for row in TABLES[name] for spelling in row.names]
    assert sorted(spelling for spelling in set(names) if names.count(spelling) > 1) == []
    assert [row.name for row in TABLES[name] if row.read_with and TABLES[name][row.read_with].read is None] == []
