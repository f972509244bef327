"""Experts that the CPU computes: what stays on the card, beside the same model with its experts there."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.values import Estimate
from memlint.run import Precision
from tests.memory.layers.test_packed_experts import FAMILIES
from tests.memory.runs import TINY, run

PURE = Precision("bfloat16", False, "bfloat16", True, outputs_to_fp32=False)
HIDDEN, LENGTH, EXPERTS, INNER, LAYERS = 512, 512, 32, 384, TINY["num_hidden_layers"]
TOKENS = 2 * LENGTH
BF16 = 2
LORA: dict[str, Any] = {"method__kind": "lora", "method__rank": 8, "method__targets": ("q_proj", "v_proj")}


def found(ktransformers: bool, shape: dict[str, Any] | None = None, **changes: Any) -> Estimate:
    family = {"architectures": None, "model_type": "qwen3_moe", "hidden_size": HIDDEN, **FAMILIES["qwen3_moe"]}
    config = {**TINY, **family, **(shape or {})}
    base = {"precision": PURE, "sequence__length": LENGTH, "attention__implementation": "sdpa", **LORA}
    return estimate(run(config, stack__use_ktransformers=ktransformers, **{**base, **changes}))


def test_the_weights_of_routed_experts_are_on_the_host() -> None:
    on_host, whole = found(True), found(False)
    experts = BF16 * LAYERS * EXPERTS * 3 * INNER * HIDDEN
    assert whole.details["weights_bytes"] - on_host.details["weights_bytes"] == experts
    assert on_host.host_bytes == experts
    assert on_host.parameters == whole.parameters
    assert on_host.trainable_parameters == whole.trainable_parameters


def test_adapters_on_routed_experts_train_on_the_host() -> None:
    targets = ("q_proj", "v_proj", "gate_up_proj", "down_proj")
    stacks = {"method__target_parameters": ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")}
    adapted = found(True, method__targets=targets, **stacks)
    assert adapted.details["weights_bytes"] == found(True).details["weights_bytes"]
    assert (adapted.host_bytes or 0) > (found(True).host_bytes or 0)


@pytest.mark.parametrize("mode", ["none", "full"])
def test_activations_of_experts_are_no_tensors_of_the_card(mode: str) -> None:
    on_host, whole = (found(here, checkpointing__mode=mode) for here in (True, False))
    assert on_host.details["kept_activations_bytes"] <= whole.details["kept_activations_bytes"]
    assert (on_host.allocated_bytes or 0) < (whole.allocated_bytes or 0)


def test_more_experts_a_token_take_no_more_of_the_card() -> None:
    few, many = (found(True, {"num_experts_per_tok": count}, checkpointing__mode="none") for count in (1, 4))
    routing = 3 * TOKENS * LAYERS * 32  # scores, indexes and gradients of three experts more
    assert 0 <= (many.allocated_bytes or 0) - (few.allocated_bytes or 0) < routing


def test_the_first_of_several_ranks_may_hold_the_tokens_of_all() -> None:
    several = found(True, parallelism__engine="ddp", parallelism__world_size=4, parallelism__gpus_per_node=4)
    alone = found(False, parallelism__engine="ddp", parallelism__world_size=4, parallelism__gpus_per_node=4)
    gathered = 3 * 4 * TOKENS * HIDDEN * BF16
    spread = (several.allocated_high_bytes or 0) - (several.allocated_bytes or 0)
    assert spread >= gathered
    assert spread > (alone.allocated_high_bytes or 0) - (alone.allocated_bytes or 0)


def test_nothing_is_said_of_completions() -> None:
    assert found(True, purpose="inference").unknown[0].field == "stack.use_ktransformers"
