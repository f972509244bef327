"""Experts that Axolotl packs while they load, against simulated steps that unpack them where they are read."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.architectures.model import Weight
from memlint.memory import estimate
from memlint.memory.state.storage import quantized_on_load
from memlint.run import Precision, Quantization, Run, replace
from memlint.simulation import simulate
from tests.memory.runs import TINY, run

MIXED = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)
# As many experts for a token's width as real mixtures have, so that unpacked experts are most of a step.
ROUTED: dict[str, Any] = {"moe_intermediate_size": 384, "num_experts_per_tok": 4, "vocab_size": 1024, "head_dim": 32}
FAMILIES: dict[str, dict[str, Any]] = {
    "qwen3_moe": {**ROUTED, "num_experts": 32},
    "glm4_moe": {**ROUTED, "n_routed_experts": 32, "n_shared_experts": 1, "n_group": 1, "topk_group": 1},
}


def packed(family: str, bits: int, on_load: bool = True, **changes: Any) -> tuple[Run, dict[str, Any]]:
    config = {**TINY, "architectures": None, "model_type": family, "hidden_size": 512, **FAMILIES[family]}
    quantization = Quantization("bnb", bits, "nf4" if bits == 4 else "int8", bits == 4, experts_on_load=on_load)
    base: dict[str, Any] = {
        "model__quantization": quantization,
        "method__kind": "lora",
        "method__rank": 8,
        "method__targets": ("q_proj", "v_proj"),
        "precision": MIXED,
        "sequence__length": 512,
        "attention__implementation": "sdpa",
    }
    return run(config, **{**base, **changes}), config


def allocated(one: Run) -> dict[str, int]:
    return {phase.name: phase.allocated_bytes for phase in estimate(one).phases}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(("mode", "reentrant"), [("none", True), ("full", True), ("full", False)])
def test_a_step_holds_what_a_simulated_one_does(family: str, bits: int, mode: str, reentrant: bool) -> None:
    one, config = packed(family, bits, checkpointing__mode=mode, checkpointing__reentrant=reentrant)
    found, step = allocated(one), simulate(one, config)
    assert found["forward"] == pytest.approx(step.forward, rel=0.02)
    assert found["backward"] == pytest.approx(step.backward, rel=0.045)
    assert found["optimizer_step"] == pytest.approx(step.optimizer_step, rel=0.01)


@pytest.mark.parametrize("bits", [4, 8])
def test_without_checkpointing_every_layer_keeps_its_experts_unpacked(bits: int) -> None:
    """Half precision of 4 bits, fp32 of 8."""
    kept, _ = packed("qwen3_moe", bits, checkpointing__mode="none")
    again, _ = packed("qwen3_moe", bits, checkpointing__mode="full")
    layers, experts = TINY["num_hidden_layers"], 32 * 3 * 512 * 384
    unpacked = (2 if bits == 4 else 4) * experts
    assert allocated(kept)["forward"] - allocated(again)["forward"] > 0.95 * (layers - 1) * unpacked


@pytest.mark.parametrize(("bits", "each"), [(4, 4), (8, 5)])
def test_loading_holds_the_largest_stack_twice(bits: int, each: int) -> None:
    """8 bits are made of a copy in fp16 beside the stack."""
    one, _ = packed("qwen3_moe", bits)
    load = next(phase for phase in estimate(one).phases if phase.name == "load")
    stack = 32 * 2 * 384 * 512
    assert load.components["temporaries"] == pytest.approx((each - bits / 8) * stack, rel=0.02)


def test_what_loading_takes_is_an_interval_where_it_is_the_peak() -> None:
    one, _ = packed("qwen3_moe", 4, sequence__length=8, checkpointing__mode="full")
    found = estimate(one)
    assert found.peak_phase == "load"
    assert (found.allocated_low_bytes or 0) < (found.allocated_bytes or 0) <= (found.allocated_high_bytes or 0)


def test_only_stacks_with_experts_in_their_name_are_packed() -> None:
    on_load = Quantization("bnb", 4, "nf4", True, experts_on_load=True)
    assert quantized_on_load(Weight("mlp.experts.down_proj", (8, 4, 4), "experts"), on_load)
    assert not quantized_on_load(Weight("block_sparse_moe.input_linear.weight", (8, 4, 4), "experts"), on_load)
    assert not quantized_on_load(Weight("ffn.experts.mlp.w1", (32, 4), "experts"), on_load)
    assert not quantized_on_load(Weight("mlp.experts.down_proj", (8, 4, 4), "experts"), Quantization("bnb", 4))


def fsdp2(bits: int, **more: Any) -> Run:
    sharded = {"parallelism__engine": "fsdp", "parallelism__world_size": 4, "parallelism__data_parallel_size": 4}
    run = packed("qwen3_moe", bits, parallelism__fsdp__version=2, **sharded, **more)[0]
    return replace(run, {"model.quantization.storage_dtype": "bfloat16"})  # axolotl 0.19.0 loaders/model.py:809


@pytest.mark.parametrize("bits", [4, 8])
def test_fsdp2_divides_packed_experts_and_not_their_scales(bits: int) -> None:
    stacks = TINY["num_hidden_layers"] * 32 * 3 * 512 * 384
    scales = stacks * (1 / 64) if bits == 4 else 4 * stacks / 512
    whole, divided = packed("qwen3_moe", bits)[0], fsdp2(bits)
    unpacked = {"model__quantization": Quantization("bnb", bits, "nf4" if bits == 4 else "int8", bits == 4)}
    one, others = (estimate(each).details["weights_bytes"] for each in (divided, fsdp2(bits, **unpacked)))
    saved = others - one
    assert saved == pytest.approx(stacks * (2 - bits / 8) / 4 - scales, rel=0.08)
    assert estimate(whole).details["weights_bytes"] > one


def test_each_rank_packs_the_whole_model_before_it_is_divided() -> None:
    one, whole = fsdp2(4, sequence__length=8, checkpointing__mode="full"), packed("qwen3_moe", 4)[0]
    found = estimate(one)
    assert allocated(one)["load"] == pytest.approx(allocated(whole)["load"], rel=0.02)
    assert (found.allocated_low_bytes or 0) >= 0.95 * estimate(whole).details["weights_bytes"]
