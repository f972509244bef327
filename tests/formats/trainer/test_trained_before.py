"""A second trainer of a script that loads what the first one saved."""

from __future__ import annotations

import pytest

import memlint

SCRIPT = """\
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, MistralConfig, MistralForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer

model = {model}
args = TrainingArguments(output_dir="runs/mistral-7b-wiki", push_to_hub=True)
Trainer(model=model, args=args, train_dataset=data).train()
model = AutoModelForCausalLM.from_pretrained("{name}")
SFTTrainer(model=model, args=SFTConfig(output_dir="out"), train_dataset=data).train()
"""
OWN = "MistralForCausalLM(config=MistralConfig(hidden_size=768, num_hidden_layers=4))"
SMALL = 'AutoModelForCausalLM.from_pretrained("Qwen/Qwen3-0.6B")'


def _family(model: str, name: str) -> str:
    """Of the model of the last run; "" where no run of a known model is seen."""
    found = memlint.check(SCRIPT.format(model=model, name=name), path="train.py")
    return getattr(found.runs[-1].run.model.architecture, "family", "") if found.runs else ""


@pytest.mark.parametrize("name", ["runs/mistral-7b-wiki", "me/mistral-7b-wiki"])
def test_its_model_is_the_one_that_was_trained(name: str) -> None:
    assert _family(OWN, name) == ""
    assert _family(SMALL, name) == "qwen3"


def test_another_name_is_another_model() -> None:
    assert _family(OWN, "mistralai/Mistral-7B-v0.1") == "mistral"


def test_a_folder_with_an_adapter_is_left_as_it_is() -> None:
    assert _family(f"get_peft_model({SMALL}, LoraConfig(r=8))", "me/mistral-7b-wiki") == "mistral"
