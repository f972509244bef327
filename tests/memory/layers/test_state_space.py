"""Mamba 2 and short convolutions beside the simulated step, in the sizes of a head that real models have."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import replace
from memlint.simulation import simulate
from tests.comparisons.families import Step, run_of
from tests.memory.compare import STEPS, estimated_and_simulated

COMMON: dict[str, Any] = {
    "hidden_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "pad_token_id": 0,
}
GRANITE: dict[str, Any] = {
    **COMMON,
    "model_type": "granitemoehybrid",
    "shared_intermediate_size": 1024,
    "num_local_experts": 0,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "layer_types": ["mamba", "attention", "mamba"],
    "mamba_n_heads": 16,
    "mamba_d_head": 64,
    "mamba_n_groups": 1,
    "mamba_d_state": 128,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_chunk_size": 256,
}
NEMOTRON: dict[str, Any] = {
    **COMMON,
    "model_type": "nemotron_h",
    "head_dim": 64,
    "intermediate_size": 2048,
    "hybrid_override_pattern": "M-*-",
    "mamba_num_heads": 16,
    "mamba_head_dim": 64,
    "n_groups": 2,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "chunk_size": 128,
}
FALCON: dict[str, Any] = {
    **COMMON,
    "model_type": "falcon_h1",
    "head_dim": 64,
    "intermediate_size": 1024,
    "num_hidden_layers": 3,
    "mamba_n_heads": 16,
    "mamba_d_head": 64,
    "mamba_d_ssm": 1024,
    "mamba_n_groups": 1,
    "mamba_d_state": 128,
    "mamba_chunk_size": 256,
}
LFM2: dict[str, Any] = {
    **COMMON,
    "model_type": "lfm2",
    "intermediate_size": 2048,
    "num_hidden_layers": 3,
    "layer_types": ["conv", "full_attention", "conv"],
}
CASES = [
    (config, step)
    for config in (GRANITE, NEMOTRON, FALCON, {**FALCON, "mamba_rms_norm": True}, LFM2)
    for step in STEPS
    if step.method != "lora" or config["model_type"] not in ("nemotron_h", "falcon_h1")  # PEFT refuses `out_proj`
]


@pytest.mark.parametrize(("config", "step"), CASES, ids=lambda value: getattr(value, "name", "") or value["model_type"])
def test_a_step_agrees_with_the_simulated_one(config: dict[str, Any], step: Step) -> None:
    found, real = estimated_and_simulated(config, step)
    assert found["forward"] == pytest.approx(real.forward, rel=0.03)
    assert found["backward"] == pytest.approx(real.backward, rel=0.025)


def test_nobody_said_whether_mamba_ssm_runs_so_the_interval_begins_at_its_kernel() -> None:
    run = run_of(GRANITE, Step("pure", False, "sdpa"))
    unsaid, kernel = estimate(run), estimate(replace(run, {"stack.linear_attention": "kernels"}))
    assert unsaid.allocated_bytes is not None and kernel.allocated_bytes is not None
    assert unsaid.allocated_low_bytes == kernel.allocated_bytes < 0.5 * unsaid.allocated_bytes


def test_before_transformers_5_18_only_the_kernel_can_train() -> None:
    run = run_of(GRANITE, Step("pure", False, "sdpa"))
    old = estimate(replace(run, {"stack.transformers": (5, 14)}))
    kernel = estimate(replace(run, {"stack.linear_attention": "kernels"}))
    assert old.allocated_bytes == kernel.allocated_bytes


@pytest.mark.parametrize("checkpointing", [False, True])
def test_adapters_of_both_mixers(checkpointing: bool) -> None:
    """Falcon-H1's attention and scan stand side by side; PEFT refuses the scan's `out_proj`."""
    targets = ("q_proj", "k_proj", "v_proj", "o_proj", "in_proj", "gate_proj", "up_proj", "down_proj")
    run = replace(run_of(FALCON, Step("lora", checkpointing, "sdpa")), {"method.targets": targets})
    found, real = {phase.name: phase.allocated_bytes for phase in estimate(run).phases}, simulate(run, FALCON)
    assert found["forward"] == pytest.approx(real.forward, rel=0.02)
    assert found["backward"] == pytest.approx(real.backward, rel=0.01)


def test_falcon_h1_multiplies_what_it_reads_and_gives() -> None:
    """Eager scores are fp32 behind the softmax, as in every later model (the first Falcon's take the scores' dtype)."""
    run = run_of(FALCON, Step("pure", True, "eager"))
    found, real = estimate(run), simulate(run, FALCON)
    assert found.allocated_bytes == pytest.approx(real.peak, rel=0.01)
