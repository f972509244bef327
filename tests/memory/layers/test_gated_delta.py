"""The gated delta rule beside the simulated step, in the sizes of a head that real models have."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import replace
from tests.comparisons.families import Step, run_of
from tests.memory.compare import STEPS, estimated_and_simulated

CONFIG: dict[str, Any] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 512,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "intermediate_size": 1536,
    "num_hidden_layers": 2,
    "layer_types": ["linear_attention", "full_attention"],
    "vocab_size": 512,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
}
DENSE = {"num_experts": 0, "moe_intermediate_size": 64, "mlp_only_layers": [0, 1]}
QWEN_NEXT = {**CONFIG, **DENSE, "model_type": "qwen3_next", "num_experts_per_tok": 2}


@pytest.mark.parametrize("config", [CONFIG, QWEN_NEXT], ids=lambda config: config["model_type"])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_transformers_own_code_agrees_with_the_simulated_step(config: dict[str, Any], step: Step) -> None:
    found, real = estimated_and_simulated(config, step)
    assert found["forward"] == pytest.approx(real.forward, rel=0.02)
    assert found["backward"] == pytest.approx(real.backward, rel=0.012)


def test_nobody_said_which_kernels_run_so_the_interval_reaches_from_flas_to_transformers_own_code() -> None:
    run = run_of(CONFIG, Step("pure", False, "sdpa"))
    unsaid, fla = estimate(run), estimate(replace(run, {"stack.linear_attention": "fla"}))
    assert fla.allocated_bytes is not None and unsaid.allocated_bytes is not None
    assert unsaid.allocated_low_bytes is not None and fla.allocated_bytes < 0.7 * unsaid.allocated_bytes
    assert unsaid.allocated_low_bytes <= fla.allocated_bytes
    assert fla.allocated_low_bytes is None or fla.allocated_low_bytes > 0.9 * fla.allocated_bytes


def test_rows_solved_in_a_loop_are_kept_before_transformers_5_17() -> None:
    run = run_of(CONFIG, Step("pure", False, "sdpa"))
    new, old = estimate(run), estimate(replace(run, {"stack.transformers": (5, 16)}))
    # sequences, chunks, heads
    rows = 2 * (1024 // 64) * 8 * sum(row + row * row for row in range(1, 64)) * 4
    assert old.allocated_bytes is not None and new.allocated_bytes is not None
    assert old.allocated_bytes - new.allocated_bytes == pytest.approx(rows, rel=0.02)
