"""DeepSpeed's table of keys: what is written is read back, under every spelling; defaults are DeepSpeed's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.formats.deepspeed import format as deepspeed
from memlint.formats.deepspeed.edits import deepspeed_edits, repeats
from memlint.formats.deepspeed.keys import KEYS
from memlint.formats.keys import Key
from memlint.formats.section_keys import path_of
from memlint.run import Run, get
from tests.formats.frameworks import applied, context, document, run_of

SCHEMA = json.loads((Path(__file__).parents[3] / "schemas" / "deepspeed.json").read_text(encoding="utf-8"))
OFFLOADED = {
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}
EXAMPLES: dict[str, tuple[Any, ...]] = {
    "flag": (True, False),
    "whole": (1, 2, 7_000_000),
    "number": (0.0, 0.5, 1.0),
    "words": (("A",), ("A", "B")),
}
WRITABLE = [row for row in KEYS if row.field and not row.read_only]
CASES = [
    pytest.param(row, value, id=f"{row.name}={value}")
    for row in WRITABLE
    for value in (row.values.values() if row.values else EXAMPLES[row.kind])
]


def read(config: Any) -> Run:
    return run_of(deepspeed.parse(document(config, "ds.json"), context()))


def with_value(config: Any, name: str, value: Any) -> Any:
    """A copy of `config` that has `value` at the dotted `name`."""
    made = json.loads(json.dumps(config))
    inner = made
    *outer, last = path_of(name)
    for step in outer:
        inner = inner.setdefault(step, {})
    inner[last] = value
    return made


def property_of(schema: Any, name: str) -> Any:
    """The schema of the key `name`; None where the schema does not list it."""
    for step in path_of(name):
        branches = (schema, *schema.get("anyOf", ()))
        schema = next((one["properties"][step] for one in branches if step in one.get("properties", {})), None)
        if schema is None:
            return None
    return schema


@pytest.mark.parametrize(("row", "value"), CASES)
@pytest.mark.parametrize("config", [OFFLOADED, {"train_micro_batch_size_per_gpu": 4}])
def test_what_is_written_is_read_back(config: Any, row: Key, value: Any) -> None:
    changes = {row.field: value}
    if row.field.endswith("_pinned"):  # what stays on the GPU pins nothing
        changes[row.field.removesuffix("_pinned")] = "cpu"
    if row.field.startswith("offload.parameters"):
        changes["parallelism.zero.stage"] = 3
    edits = deepspeed_edits(config, ("ds.json", ()), changes)
    assert get(read(applied(config, edits, "ds.json")), row.field) == value


@pytest.mark.parametrize(
    ("row", "older"), [pytest.param(row, older, id=older) for row in WRITABLE for older in row.older]
)
def test_an_older_spelling_is_read_and_kept(row: Key, older: str) -> None:
    said, value = next(iter(row.values.items())) if row.values else (EXAMPLES[row.kind][0],) * 2
    config = with_value(OFFLOADED, older, said)
    assert get(read(config), row.field) == value
    edits = deepspeed_edits(config, ("ds.json", ()), {row.field: value})
    assert edits is not None
    assert [edit.pointer for edit in edits] == [path_of(older)]


def test_defaults_are_deepspeed_s() -> None:
    known = {row.name: property_of(SCHEMA, row.name) for row in KEYS}
    theirs = {name: schema["default"] for name, schema in known.items() if schema and "default" in schema}
    assert len(theirs) > 25
    assert theirs == {name: KEYS[name].default for name in theirs}


def test_every_key_is_one_that_deepspeed_knows() -> None:
    open_sections = ("optimizer.params.", "scheduler.params.")
    names = [name for row in KEYS for name in row.names if not name.startswith(open_sections)]
    assert [name for name in names if property_of(SCHEMA, name) is None] == []


@pytest.mark.parametrize("row", WRITABLE, ids=lambda row: row.name)
def test_what_the_key_cannot_say_is_not_written(row: Key) -> None:
    assert deepspeed_edits(OFFLOADED, ("ds.json", ()), {row.field: object()}) is None


@pytest.mark.parametrize(
    ("section", "field", "found"),
    [
        ({"train_micro_batch_size_per_gpu": 4}, "batch.micro_batch_size", True),
        ({"gradient_clipping": 1.0}, "optimizer.max_grad_norm", True),
        ({"gradient_accumulation_steps": "auto"}, "batch.gradient_accumulation_steps", False),
        ({"train_micro_batch_size_per_gpu": True}, "batch.micro_batch_size", False),
        ({"train_batch_size": 8}, "batch.global_batch_size", False),  # no training argument says it
        ({"zero_optimization": {"stage": 3}}, "parallelism.zero.stage", False),
        ({}, "attention.implementation", False),
        (None, "batch.micro_batch_size", False),
    ],
)
def test_numbers_that_training_arguments_repeat(section: Any, field: str, found: bool) -> None:
    assert repeats(section, field) is found
