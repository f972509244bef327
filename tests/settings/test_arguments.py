"""The arguments that `keys:` of the settings may name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memlint.formats.trainer.argument_names import OF_TRL
from memlint.settings.arguments import arguments_of, wrong_arguments

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas/settings.json").read_text())


def wrong(name: str, **arguments: Any) -> list[str]:
    return [message for _, message, _ in wrong_arguments({"class": name, "arguments": arguments})]


def test_the_schema_names_every_class() -> None:
    classes = SCHEMA["properties"]["keys"]["items"]["properties"]["class"]["enum"]
    assert {"TrainingArguments", "Seq2SeqTrainingArguments", "loop", *OF_TRL} == set(classes)


@pytest.mark.parametrize("name", ["TrainingArguments", "loop", *OF_TRL])
def test_every_class_has_what_all_trainers_have(name: str) -> None:
    assert arguments_of(name) >= {
        *("per_device_train_batch_size", "optim", "deepspeed", "model_name_or_path", "lora_r", "max_length"),
        *("evaluation_strategy", "torch_dtype", "load_in_4bit"),  # of earlier releases, of the loader
    }


def test_arguments_of_one_trainer_are_not_those_of_another() -> None:
    assert wrong("GRPOConfig", num_generations="a", max_completion_length="b") == []
    (message,) = wrong("SFTConfig", num_generations="rl.group")
    assert message.startswith("SFTConfig has no argument `num_generations`; ")
    assert "GRPOConfig" in message
    assert wrong("loop", beta="a")[0].startswith("a training loop has no argument `beta`")


@pytest.mark.parametrize(
    ("said", "is_wrong"),
    [
        ("batch", False),
        ({"key": "batch"}, False),
        ({"key": "batch", "default": 4}, False),
        ({"key": "batch", "default": None}, False),
        ({"key": "batch", "default": "four"}, True),
        ({"value": [4]}, True),
        ({"value": 4}, False),
        ({"unknown": "a reason"}, False),
    ],
)
def test_values_are_of_the_arguments_type(said: Any, is_wrong: bool) -> None:
    assert bool(wrong("SFTConfig", per_device_train_batch_size=said)) is is_wrong
