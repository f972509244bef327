"""Experts in ScatterMoE's kernels, against simulated steps with a stand-in for the kernels."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import Precision, Quantization, Run
from memlint.simulation import simulate
from tests.memory.layers.test_packed_experts import FAMILIES, MIXED, allocated
from tests.memory.runs import TINY, run

PURE = Precision("bfloat16", False, "bfloat16", True, outputs_to_fp32=False)
HIDDEN, EXPERTS, INNER = 512, 32, 384
STACKS = {"gate_up": EXPERTS * 2 * INNER * HIDDEN, "down": EXPERTS * INNER * HIDDEN}


def scattered(family: str = "qwen3_moe", **changes: Any) -> tuple[Run, dict[str, Any]]:
    config = {**TINY, "architectures": None, "model_type": family, "hidden_size": HIDDEN, **FAMILIES[family]}
    base: dict[str, Any] = {
        "stack__expert_kernel": "scattermoe",
        "precision": PURE,
        "sequence__length": 512,
        "attention__implementation": "sdpa",
    }
    return run(config, **{**base, **changes}), config


LORA: dict[str, Any] = {
    "method__kind": "lora",
    "method__rank": 8,
    "method__targets": ("q_proj", "v_proj"),
    "precision": MIXED,
}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", [{}, LORA])
@pytest.mark.parametrize(("mode", "reentrant"), [("none", True), ("full", True), ("full", False)])
def test_a_step_holds_what_a_simulated_one_does(
    family: str, method: dict[str, Any], mode: str, reentrant: bool
) -> None:
    one, config = scattered(family, checkpointing__mode=mode, checkpointing__reentrant=reentrant, **method)
    found, step = allocated(one), simulate(one, config)
    assert found["forward"] == pytest.approx(step.forward, rel=0.02)
    assert found["backward"] == pytest.approx(step.backward, rel=0.02)
    assert found["optimizer_step"] == pytest.approx(step.optimizer_step, rel=0.01)
