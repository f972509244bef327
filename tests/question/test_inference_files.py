"""Inference of the Trainer's and Axolotl's files: no gradients, and a KV cache where there is one."""

from __future__ import annotations

import json
from typing import Any

import pytest

import memlint

LLAMA = "meta-llama/Meta-Llama-3-8B"
CACHE_A_TOKEN = 2 * 32 * 8 * 128 * 2  # keys and values, layers, KV heads, their width, bytes of bf16
AXOLOTL = {
    "base_model": LLAMA,
    "inference": True,
    "sequence_len": 4096,
    "bf16": True,
    "micro_batch_size": 1,
    "datasets": [{"path": "x", "type": "alpaca"}],
    "output_dir": "out",
}
TRAINER = {
    "model_name_or_path": LLAMA,
    "output_dir": "out",
    "bf16": True,
    "bf16_full_eval": True,
    "do_eval": True,
    "max_seq_length": 2048,
    "per_device_eval_batch_size": 4,
    "do_train": False,
    "per_device_train_batch_size": 1,
    "learning_rate": 1e-5,
}


def phases(config: dict[str, Any]) -> dict[str, Any]:
    found = memlint.estimate(json.dumps(config), path="run.json", gpu="A100-80GB", gpus=1)
    assert (found.run.purpose, found.run.method.kind) == ("inference", "none")
    assert found.fits
    return {phase.name: phase.components for phase in found.phases}


def test_axolotl_answers_with_a_cache_of_prompt_and_answer() -> None:
    """axolotl 0.19.0 cli/inference.py: 1,024 new tokens."""
    found = phases(AXOLOTL)

    assert found["prefill"]["kv_cache"] == 4096 * CACHE_A_TOKEN
    assert found["decode"]["kv_cache"] == (4096 + 1024) * CACHE_A_TOKEN
    assert not any(components["gradients"] or components["optimizer_states"] for components in found.values())


def test_an_adapter_on_four_bits_answers_from_four_bits() -> None:
    small = phases({**AXOLOTL, "load_in_4bit": True, "adapter": "qlora", "lora_r": 8, "lora_target_linear": True})

    assert small["decode"]["weights"] < 0.4 * phases(AXOLOTL)["decode"]["weights"]
    assert small["decode"]["kv_cache"] == (4096 + 1024) * CACHE_A_TOKEN


def test_the_trainer_evaluates_in_the_dtype_that_it_casts_to() -> None:
    cast, mixed = phases(TRAINER), phases({**TRAINER, "bf16_full_eval": False})

    assert cast["evaluation"]["weights"] <= mixed["evaluation"]["weights"]
    for found in (cast, mixed):
        assert not any(components["gradients"] or components["optimizer_states"] for components in found.values())


@pytest.mark.parametrize("size", [1, 2])
def test_evaluation_grows_with_its_batch(size: int) -> None:
    small, large = (phases({**TRAINER, "per_device_eval_batch_size": each})["evaluation"] for each in (size, 2 * size))

    assert large["logits"] == pytest.approx(2 * small["logits"], rel=0.01)
    assert large["weights"] == small["weights"]
