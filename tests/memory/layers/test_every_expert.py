"""Llama 4 runs every expert on every token."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import replace
from tests.comparisons.families import Step, run_of
from tests.memory.compare import STEPS, estimated_and_simulated

CONFIG: dict[str, Any] = {
    "model_type": "llama4_text",
    "hidden_size": 256,
    "intermediate_size": 512,
    "intermediate_size_mlp": 1024,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 2000,
    "num_local_experts": 8,
    "interleave_moe_layer_step": 1,
    "pad_token_id": 0,
}


@pytest.mark.parametrize("step", [step for step in STEPS if step.method != "lora"], ids=lambda step: step.name)
def test_transformers_own_code_agrees_with_the_simulated_step(step: Step) -> None:
    found, real = estimated_and_simulated(CONFIG, step)
    assert found["forward"] == pytest.approx(real.forward, rel=0.02)
    assert found["backward"] == pytest.approx(real.backward, rel=0.02)


def test_memory_grows_with_the_experts_that_there_are_not_with_those_that_are_chosen() -> None:
    run = run_of(CONFIG, Step("pure", False, "sdpa"))
    architecture = run.model.architecture

    def peak(**changes: int) -> int:
        kinds = tuple(kind._replace(mlp=kind.mlp._replace(**changes)) for kind in architecture.layer_types)
        return (
            estimate(replace(run, {"model.architecture": architecture._replace(layer_types=kinds)})).allocated_bytes
            or 0
        )

    assert peak(experts_per_token=4) == peak(experts_per_token=1)
    assert peak(experts=16) > 1.5 * peak(experts=8)
