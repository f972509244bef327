"""Trainable parameters of LoRA on every linear layer, against PEFT on the meta device."""

from __future__ import annotations

import warnings

import pytest
from peft import LoraConfig, get_peft_model

from memlint.architectures import from_config
from tests.architectures import referee
from tests.architectures.small import SMALL

RANK = 8
FAMILIES = [
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "gemma2",
    "phi3",
    "starcoder2",
    "olmo2",
    "granite",
    "cohere",
    "stablelm",
    "glm4",
]


@pytest.mark.parametrize("family", FAMILIES)
def test_lora_on_all_linear_layers(family: str) -> None:
    values = {**SMALL, "pad_token_id": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(referee.build(family, values), LoraConfig(r=RANK, target_modules="all-linear"))
    architecture = from_config({"model_type": family, **values})
    layers = [architecture.layer_types[index] for index in architecture.layer_type_ids]
    linear = [weight for layer in layers for weight in layer.weights if weight.kind == "linear"]
    assert sum(RANK * sum(weight.shape) for weight in linear) == model.get_nb_trainable_parameters()[0]
