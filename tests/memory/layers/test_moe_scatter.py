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
OF_GPT_OSS = {"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 128, "head_dim": 32}
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


def difference(phase: str, one: Run, other: Run) -> int:
    return allocated(one)[phase] - allocated(other)[phase]


def held(one: Run) -> int:
    """Bytes of weights, optimizer states and gradients."""
    details = estimate(one).details
    return int(details["resident_bytes"] + details["gradients_bytes"])


def test_adapted_experts_need_no_gradient_of_their_stack() -> None:
    """Frozen experts without adapters get one, which is thrown away."""
    targets = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
    plain, _ = scattered(checkpointing__mode="full", **LORA)
    adapted, _ = scattered(checkpointing__mode="full", method__target_parameters=targets, **LORA)
    merged, _ = scattered(
        checkpointing__mode="full", method__target_parameters=targets, stack__expert_kernel="", **LORA
    )
    more = difference("backward", adapted, plain) - (held(adapted) - held(plain))
    assert more < -0.5 * 2 * STACKS["gate_up"]
    assert difference("forward", adapted, merged) < -1.5 * STACKS["gate_up"]  # no merged stack in half precision


def test_packed_experts_are_kept_unpacked_only_without_adapters() -> None:
    packed = Quantization("bnb", 4, "nf4", True, experts_on_load=True)
    targets = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
    common = {**LORA, "model__quantization": packed, "checkpointing__mode": "none"}
    kept, _ = scattered(**common)
    again, _ = scattered(method__target_parameters=targets, **common)
    unpacked = 2 * sum(STACKS.values())
    assert difference("forward", kept, again) > (TINY["num_hidden_layers"] - 2) * unpacked


def test_what_tuning_takes_widens_the_interval() -> None:
    found = estimate(scattered()[0])
    assert (found.allocated_high_bytes or 0) >= (found.allocated_bytes or 0) + 256 * 2**20


def test_a_family_with_other_code_in_these_kernels_has_no_figure() -> None:
    config = {**TINY, "architectures": None, "model_type": "gpt_oss", **OF_GPT_OSS}
    found = estimate(run(config, stack__expert_kernel="scattermoe", attention__implementation="eager"))
    assert [field.field for field in found.unknown] == ["stack.expert_kernel"]
