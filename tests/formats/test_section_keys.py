"""The values that a file gives to a table's keys: sections, spellings, nulls, values of another kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memlint.formats.fields import root
from memlint.formats.keys import Key, Keys
from memlint.formats.section_keys import SectionKeys, path_of
from memlint.source import load

KEYS = Keys(
    Key("batch", "whole", default=8, older=("per_gpu_batch",)),
    Key("zero.stage", "whole", default=0),
    Key("zero.offload.device", "word", default="none"),
    Key("flag", "flag", default=True),
    Key("a.b.c.d", "whole", default=1),
)


def values(value: Any) -> SectionKeys:
    return SectionKeys(root(load(json.dumps(value).encode(), "ds.json")[0]), KEYS, "deepspeed 0.19")


def test_an_empty_file_has_the_defaults() -> None:
    found = values({})

    assert (found.get("batch"), found.get("zero.stage"), found.flag("flag")) == (8, 0, True)
    assert (found.raw("batch"), found.written("batch"), found.integer("batch")) == (None, None, None)
    origin = found.origin("batch")
    assert (origin.kind, origin.detail) == ("default", "deepspeed 0.19")


def test_a_key_of_a_section_is_found_by_its_dotted_name() -> None:
    found = values({"zero": {"stage": 3, "offload": {"device": "cpu"}}})

    assert (found.get("zero.stage"), found.get("zero.offload.device")) == (3, "cpu")
    assert found.path("zero.offload.device") == ("zero", "offload", "device")
    assert found.origin("zero.stage").pointer == ("zero", "stage")


@pytest.mark.parametrize(
    ("value", "batch", "spelling"),
    [
        ({"per_gpu_batch": 2}, 2, "per_gpu_batch"),
        ({"per_gpu_batch": 2, "batch": 4}, 4, "batch"),
        ({"batch": 4, "per_gpu_batch": 2}, 4, "batch"),
        ({"batch": None, "per_gpu_batch": 2}, 2, "per_gpu_batch"),
        ({"batch": "many"}, 8, "batch"),
    ],
)
def test_of_two_spellings_the_newer_one_counts(value: Any, batch: int, spelling: str) -> None:
    found = values(value)
    assert (found.get("batch"), found.get("per_gpu_batch")) == (batch, batch)
    assert found.written("batch") == found.written("per_gpu_batch") == spelling


def test_a_value_of_another_kind_is_kept_as_written_and_not_in_force() -> None:
    found = values({"batch": "many"})
    assert (found.raw("batch"), found.find("batch").is_valid, found.origin("batch").kind) == ("many", False, "default")


@pytest.mark.parametrize("value", [{"zero.stage": 3}, {"zero": 3}, {"zero": None}, {"a": {"b": {"c": 2}}}])
def test_what_is_no_section_of_the_table_gives_nothing(value: Any) -> None:
    """A dotted key is no section, and a value is no section."""
    found = values(value)
    assert (found.get("zero.stage"), found.get("a.b.c.d")) == (0, 1)


def test_a_key_without_a_row_is_refused() -> None:
    with pytest.raises(KeyError):
        values({}).get("unheard_of")


def test_the_steps_of_a_key() -> None:
    assert path_of("a.b") == ("a", "b") and path_of("a") == ("a",)
