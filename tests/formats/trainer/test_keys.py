"""The Trainer's tables of keys: a written file says what was asked for, and defaults are the frameworks' own."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.formats.keys import FieldChange, Key
from memlint.formats.schema.validate import compiled_schema
from memlint.formats.trainer import format as trainer
from memlint.formats.trainer.keys import KEYS, OWN_KEYS
from memlint.formats.training_arguments import KEYS as TRAINING_ARGUMENTS
from memlint.run import Run, get
from tests.formats.frameworks import context, document, run_of
from tests.formats.test_framework_schemas import class_fields, default_of, source

SFT = {"model_name_or_path": "llama", "output_dir": "out", "dataset_text_field": "text", "bf16": False}
LORA = {**SFT, "use_peft": True}
FOUR_BITS = {**LORA, "load_in_4bit": True}
GRPO = {**SFT, "num_generations": 4, "max_prompt_length": 64}
DPO = {**SFT, "loss_type": "sigmoid"}
PPO = {**SFT, "reward_model_path": "llama", "max_prompt_length": 64}
GKD = {**SFT, "teacher_model_name_or_path": "llama", "lmbda": 0.5}
# A file in which the key counts, where TRL's supervised training of all weights is none.
FILES: dict[str, dict[str, Any]] = {
    **{row.name: LORA for row in OWN_KEYS if row.name.startswith("lora_") or row.name.startswith("use_")},
    **{row.name: FOUR_BITS for row in OWN_KEYS if "bnb" in row.name},
    **dict.fromkeys(("load_in_4bit", "use_peft"), LORA),
    **dict.fromkeys(("max_completion_length", "num_generations", "ds3_gather_for_generation"), GRPO),
    "vllm_gpu_memory_utilization": {**GRPO, "use_vllm": True},
    "vllm_enable_sleep_mode": {**GRPO, "use_vllm": True},
    "vllm_tensor_parallel_size": {**GRPO, "use_vllm": True},
    "vllm_max_model_length": {**GRPO, "use_vllm": True},
    "precompute_ref_log_probs": DPO,
    **dict.fromkeys(("response_length", "local_rollout_forward_batch_size"), PPO),
    "max_new_tokens": GKD,
    "eval_strategy": {**SFT, "eval_strategy": "steps", "do_eval": True},
}
VALUES: dict[str, tuple[Any, ...]] = {
    "flag": (True, False),
    "whole": (1, 7),
    "number": (0.25, 1.0),
    "word": ("adafactor",),
    "text": ("fp4", "nf4"),
    "words": (("q_proj",), ("q_proj", "v_proj")),
}
WRITABLE = [row for row in KEYS if row.field and not row.read_only]
AUTOCAST = {"precision.autocast": True}


def values(row: Key) -> tuple[Any, ...]:
    if row.name == "eval_strategy":
        return (False,)  # how often to evaluate is the author's choice
    if row.name == "ddp_bucket_cap_mb":
        return (25.0,)
    if row.name == "accelerator_config":
        return (True,)
    if row.values is not None:
        return tuple(dict.fromkeys(row.values.values()))
    return VALUES[row.kind]


def read(file: dict[str, Any]) -> Run:
    return run_of(trainer.parse(document(file), context()))


def written(row: Key, value: Any, file: dict[str, Any]) -> dict[str, Any]:
    said = row.written(FieldChange(row.field, value, {row.field: value, **AUTOCAST}, file, read(file)))
    assert said is not None
    return dict(said)


CASES = [pytest.param(row, value, id=f"{row.name}-{value}") for row in WRITABLE for value in values(row)]


@pytest.mark.parametrize(("row", "value"), CASES)
def test_what_a_row_writes_the_file_says(row: Key, value: Any) -> None:
    file = FILES.get(row.name, SFT)
    assert get(read({**file, **written(row, value, file)}), row.field) == value


@pytest.mark.parametrize(("row", "value"), CASES)
def test_every_other_spelling_says_the_same_and_is_kept(row: Key, value: Any) -> None:
    file = {key: said for key, said in FILES.get(row.name, SFT).items() if key not in row.names}
    for name in (*row.newer, *row.older):
        if row.name == "eval_strategy":
            file = {**file, name: "steps"}
        said = written(row, value, {**file, name: None})
        assert name in said
        assert get(read({**file, **said}), row.field) == value


@pytest.mark.parametrize("row", WRITABLE, ids=lambda row: row.name)
def test_what_the_key_cannot_say_is_not_written(row: Key) -> None:
    file = FILES.get(row.name, SFT)
    assert row.written(FieldChange(row.field, object(), {}, file, read(file))) is None


def test_defaults_are_those_of_training_arguments() -> None:
    fields = dict(class_fields(source("transformers", "training_args.py"), "TrainingArguments"))
    theirs = {name: default_of(value) for name, value in fields.items() if name in TRAINING_ARGUMENTS}
    literal = {name: value for name, value in theirs.items() if isinstance(value, bool | int | float | str)}
    ours = {name: TRAINING_ARGUMENTS[name].default for name in literal}
    assert len(literal) > 20
    assert ours == literal


def test_defaults_of_trl_are_the_schema_s() -> None:
    # Where TRL's trainers or releases differ, the schema has none.
    properties = compiled_schema(trainer.SCHEMA).schema["properties"]
    theirs = {
        row.name: properties[row.name]["default"] for row in OWN_KEYS if "default" in properties.get(row.name, {})
    }
    assert len(theirs) > 15
    assert theirs == {name: OWN_KEYS[name].default for name in theirs}
