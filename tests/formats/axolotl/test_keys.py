"""The table of Axolotl's keys: what is written is read back, and its defaults are Axolotl's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.formats.axolotl import format as axolotl
from memlint.formats.axolotl.keys import KEYS
from memlint.formats.axolotl.releases import SCHEMA
from memlint.formats.keys import KINDS, Key
from memlint.formats.schema.validate import compiled_schema
from memlint.run import get
from tests.formats.axolotl.test_axolotl_runs import DPO, FSDP2, LORA, PLAIN, QLORA, parsed_of
from tests.formats.axolotl.test_edits import ADAPTER, CHECKPOINTED, DOUBLE, EVALUATES, TOWERS, applied
from tests.formats.frameworks import run_of

SCHEMAS = Path(__file__).parents[3] / "schemas"
SAMPLES: dict[str, tuple[Any, ...]] = {"whole": (1, 7, 4096), "number": (0.5, 2.0), "flag": (True, False)}
# Values of the fields whose keys take words, mappings or several kinds.
WORDS: dict[str, tuple[Any, ...]] = {
    "attention.implementation": ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention", "sage"),
    "checkpointing.mode": ("full", "none", "selective"),
    "checkpointing.offload": (True,),
    "evaluation.enabled": (False,),
    "loss.kind": ("liger", "cut", "plain"),
    "method.kind": ("lora", "freeze"),
    "method.reference_model": ("shared",),
    "method.targets": (("q_proj", "v_proj"), ("down_proj",)),
    "parallelism.fsdp.reduces_each_backward": (True,),
    "model.quantization.storage_dtype": ("bfloat16",),  # where an engine shares them
    "optimizer.name": ("adamw_torch", "paged_adamw_8bit", "lion_8bit", "adafactor"),
    **{field: (value,) for field, value in DOUBLE.items()},
}
# The file that a change starts from, and what a plan always changes with it.
STARTS: dict[str, dict[str, Any]] = {
    "checkpointing.offload": CHECKPOINTED,
    "evaluation.batch_size": EVALUATES,
    "evaluation.enabled": EVALUATES,
    "method.alpha": LORA,
    "method.rank": LORA,
    "method.reference_model": DPO,
    "model.quantization.experts_on_load": {**QLORA, "lora_target_linear": False, "lora_target_modules": ["q_proj"]},
    "model.quantization.storage_dtype": {**LORA, **FSDP2},
    "parallelism.fsdp.cpu_offload": FSDP2,
    "parallelism.fsdp.reduces_each_backward": FSDP2,
    "parallelism.fsdp.reshard_after_forward": FSDP2,
    **dict.fromkeys(DOUBLE, LORA),
}
TOGETHER: dict[str, dict[str, Any]] = {
    "loss.liger_kernels": {"loss.kind": "liger"},
    "method.kind": ADAPTER,
    "method.reference_model": ADAPTER,
    "method.targets": ADAPTER,
    "model.quantization.storage_dtype": DOUBLE,
    **dict.fromkeys(TOWERS, TOWERS),
    **dict.fromkeys(DOUBLE, DOUBLE),
}
WRITTEN = [(row, field) for row in KEYS for field in row.fields if not row.read_only]


def values_of(row: Key, field: str) -> tuple[Any, ...]:
    if field in WORDS:
        return WORDS[field]
    return tuple(row.values.values()) if row.values else SAMPLES[row.kind]


@pytest.mark.parametrize(("row", "field"), WRITTEN, ids=[f"{row.name}-{field}" for row, field in WRITTEN])
def test_reading_what_was_written_gives_the_value_back(row: Key, field: str) -> None:
    accepted = 0
    start = STARTS.get(field, PLAIN)
    parsed = parsed_of(start)
    for value in values_of(row, field):
        edits = axolotl.edits(parsed, run_of(parsed), {**TOGETHER.get(field, {}), field: value})
        if edits is not None:
            accepted += 1
            assert get(run_of(parsed_of(applied(start, edits, "train.json"))), field) == value
    assert accepted


@pytest.mark.parametrize("row", list(KEYS), ids=[row.name for row in KEYS])
def test_a_row_says_what_its_key_does(row: Key) -> None:
    assert row.kind in KINDS
    assert (row.about.endswith(".") and row.about[0].isupper()) or row.about[0] in "`0123456789"
    assert row.field or not row.write


def test_every_field_is_one_of_the_run() -> None:
    run = run_of(parsed_of(PLAIN))
    for row in KEYS:
        for field in row.fields:
            get(run, field)


def test_no_key_has_two_rows() -> None:
    names = [name for row in KEYS for name in row.names]
    assert len(names) == len(set(names))


def test_defaults_are_axolotls_own() -> None:
    properties = compiled_schema(SCHEMA).schema["properties"]
    own = {row.name: properties[row.name]["default"] for row in KEYS if "default" in properties.get(row.name, {})}
    assert own.pop("tf32") == "auto"  # which asks the card: no value of a switch
    assert own.pop("fsdp_version") == 2  # from 0.20 on, which has no other
    assert {name: KEYS[name].default for name in own} == own
    # What the schema leaves empty, and Axolotl then takes for false, 0 or nothing.
    assert not any(value for name, value in KEYS.defaults.items() if name not in own)


def test_what_is_passed_on_is_an_argument_of_transformers() -> None:
    arguments = json.loads((SCHEMAS / "trainer.json").read_text(encoding="utf-8"))["properties"]
    assert {row.passes for row in KEYS if row.passes} <= arguments.keys()


def test_a_placeholder_is_unknown_and_is_not_overwritten() -> None:
    value = {**PLAIN, "sequence_len": "${LENGTH}", "freeze_mm_modules": "${FREEZE}"}
    parsed = parsed_of(value)
    run = run_of(parsed)
    for field in ("sequence.length", "method.freeze_vision_tower", "method.freeze_multi_modal_projector"):
        assert run.origins[field].kind == "unknown"
    assert axolotl.edits(parsed, run, {"sequence.length": 512}) is None
