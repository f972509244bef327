"""Axolotl's LoRA kernels, and embeddings held apart from the layers, against a simulated step with stand-ins."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import Precision, Run
from memlint.simulation import simulate
from tests.memory.runs import LORA, TINY, run

# A small vocabulary, so that the layers are where the step is highest.
SMALL: dict[str, Any] = {**TINY, "vocab_size": 256}
MIXED = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)
ALL = ("qkv", "o", "mlp")
FOUR_BITS: dict[str, object] = {
    "model__quantization__method": "bnb",
    "model__quantization__bits": 4,
    "model__quantization__kind": "nf4",
    "model__quantization__double_quant": True,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": {"head_dim": 64},
    "gemma3_text": {"head_dim": 64, "query_pre_attn_scalar": 64},
}


def case(family: str, tied: bool = False, **changes: object) -> tuple[Run, dict[str, Any]]:
    config = {**SMALL, "model_type": family, **FAMILIES[family], "tie_word_embeddings": tied}
    config.pop("architectures")
    return run({**config, "architectures": None}, **changes), config


def kernels(family: str, groups: tuple[str, ...], mode: str, **changes: object) -> tuple[Run, dict[str, Any]]:
    base: dict[str, Any] = {**LORA, "checkpointing__mode": mode, "method__fused_adapters": groups, "precision": MIXED}
    return case(family, **{**base, **changes})


def held(one: Run) -> dict[str, int]:
    return {phase.name: phase.allocated_bytes for phase in estimate(one).phases}


@pytest.mark.parametrize("family", ["llama", "qwen3"])
@pytest.mark.parametrize("mode", ["none", "full"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("groups", [ALL, ("mlp",), ("qkv", "o")])
def test_kernels_keep_what_a_simulated_step_keeps(
    family: str, mode: str, dropout: float, groups: tuple[str, ...]
) -> None:
    one, config = kernels(family, groups, mode, method__dropout=dropout)
    found, step = held(one), simulate(one, config)
    assert found["backward"] == pytest.approx(step.backward, rel=0.03 if dropout and len(groups) < 3 else 0.002)
    assert found["forward"] == pytest.approx(step.forward, rel=0.015)


@pytest.mark.parametrize("mode", ["none", "full"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_kernels_over_four_bits(mode: str, dropout: float) -> None:
    one, config = kernels("llama", ALL, mode, method__dropout=dropout, **FOUR_BITS)
    found, step = held(one), simulate(one, config)
    assert found["backward"] == pytest.approx(step.backward, rel=0.004)
    assert found["forward"] == pytest.approx(step.forward, rel=0.005)


def test_kernels_keep_less_than_peft() -> None:
    plain, _ = kernels("llama", (), "none")
    patched, _ = kernels("llama", ALL, "none")
    kept = [estimate(one).details["kept_activations_bytes"] for one in (patched, plain)]
    assert kept[0] < 0.7 * kept[1]


def test_layers_without_all_adapters_run_pefts_code() -> None:
    """monkeypatch/lora_kernels.py: `can_patch_qkv` wants an adapter on each."""
    targets = {"method__targets": ("q_proj", "v_proj", "gate_proj")}
    patched, config = kernels("llama", ALL, "none", **targets)
    plain, _ = kernels("llama", (), "none", **targets)
    assert held(patched) == held(plain)
    assert simulate(patched, config).backward == simulate(plain, config).backward


def test_dora_runs_pefts_code_here() -> None:
    patched, _ = kernels("llama", ALL, "none", method__use_dora=True)
    plain, _ = kernels("llama", (), "none", method__use_dora=True)
    assert held(patched) == held(plain)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("mode", ["none", "full"])
@pytest.mark.parametrize("tied", [False, True])
def test_embeddings_head_and_norms_in_fp32(family: str, mode: str, tied: bool) -> None:
    precision = MIXED._replace(trainable_dtype="bfloat16", embeddings_dtype="float32")
    changes: dict[str, Any] = {"checkpointing__mode": mode, "attention__implementation": "sdpa", "precision": precision}
    one, config = case(family, tied, **changes)
    found, step = held(one), simulate(one, config)
    weights = estimate(one).phases[1].components["weights"]
    assert weights == pytest.approx(step.base, rel=0.0002)
    assert found["backward"] == pytest.approx(step.backward, rel=0.001)
    assert found["forward"] == pytest.approx(step.forward, rel=0.001)
    assert found["optimizer_step"] == pytest.approx(step.optimizer_step, rel=0.002)


def test_embeddings_in_fp32_cost_two_bytes_a_number() -> None:
    same, _ = case("llama", precision=MIXED._replace(trainable_dtype="bfloat16"))
    apart, _ = case("llama", precision=MIXED._replace(trainable_dtype="bfloat16", embeddings_dtype="float32"))
    weights = [estimate(one).phases[0].components["weights"] for one in (same, apart)]
    numbers = (
        2 * SMALL["vocab_size"] * SMALL["hidden_size"] + (2 * SMALL["num_hidden_layers"] + 1) * SMALL["hidden_size"]
    )
    assert weights[1] - weights[0] == 2 * numbers
