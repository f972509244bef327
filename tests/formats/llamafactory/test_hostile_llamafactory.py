"""Any value at any key: parsing, recognising and editing never raise."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlint.formats.llamafactory import format as llamafactory
from memlint.formats.schema.validate import compiled_schema
from memlint.source.document import Document
from tests.formats.llamafactory.files import context, document

V0 = sorted(compiled_schema("llamafactory.json#v0").schema["properties"])
V1 = sorted(compiled_schema("llamafactory.json#v1").schema["properties"])
ODD: list[Any] = [None, True, False, 0, -1, 2**70, 1.5, float("inf"), float("nan"), "", "x,y", "${a}", "$a", "{", "-1"]
ODD += [[], ["a", None, 3], {}, {"name": 3}, {"name": "lora", "r": []}, [[[]]], {1: 2}]


def made(value: Any) -> Document:
    return document("{}")._replace(value=value)


def survive(value: Any, gpus: int | None) -> None:
    given_document = made(value)
    llamafactory.recognise(given_document)
    parsed = llamafactory.parse(given_document, context({"x,y": "{}"}, gpus))
    for run in parsed.runs:
        changes = {"checkpointing.mode": "full", "parallelism.zero.stage": 3, "sequence.length": 512}
        llamafactory.edits(parsed, run, changes)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_every_key_with_every_kind_of_value(odd: Any) -> None:
    base = {"model_name_or_path": "llama", "stage": "sft", "do_train": True, "finetuning_type": "lora"}
    for key in V0:
        survive({**base, key: odd}, 8)
    for key in V1:
        survive({"model": "qwen3", "model_class": "llm", "train_dataset": "d", key: odd}, 8)


WORDS = st.sampled_from(["auto", "llama"])
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(st.sampled_from(V0 + V1), values, max_size=12), st.sampled_from([None, 0, 1, 8]))
def test_any_file(value: dict[str, Any], gpus: int | None) -> None:
    survive(value, gpus)


@pytest.mark.parametrize("value", [None, 3, "x", [], [1], {}, {None: None}, {"model": {}}])
def test_what_is_no_config_at_all(value: Any) -> None:
    survive(value, None)
