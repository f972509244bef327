"""Adapters against the simulated step: PEFT's real layers on fake tensors."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.values import Estimate
from memlint.run import Precision, Quantization, Run
from memlint.simulation import simulate
from tests.memory.runs import LORA, TINY, run

NF4 = Quantization("bnb", 4, "nf4", True)
INT8 = Quantization("bnb", 8, "int8")
MIXED: dict[str, object] = {"precision": Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)}
PURE: dict[str, object] = {"method__adapter_dtype": "bfloat16"}
CHECKPOINTED: dict[str, object] = {"checkpointing__mode": "full"}
OFT: dict[str, object] = {"method__kind": "oft", "method__rank": 0, "method__oft_block_size": 32}
DORA: dict[str, object] = {"method__use_dora": True}
DROPOUT: dict[str, object] = {"method__dropout": 0.1}
SAVED: dict[str, object] = {"method__modules_to_save": ("lm_head", "embed_tokens")}


def adapted(changes: dict[str, object]) -> Run:
    settings = {**LORA, **changes}
    precision = settings.pop("precision", None)
    found = run(**settings)
    return found if precision is None else found._replace(precision=precision)  # type: ignore[arg-type]


def phases(found: Estimate) -> dict[str, int]:
    assert found.allocated_bytes is not None, found.unknown
    return {phase.name: phase.allocated_bytes for phase in found.phases}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({**MIXED, **DROPOUT}, id="dropout keeps a mask and a copy of each input"),
        pytest.param({**MIXED, "method__use_rslora": True}, id="rsLoRA changes a number alone"),
        pytest.param({**MIXED, "method__rank_pattern": (("q_proj", 32), ("down_proj", 4))}, id="rank pattern"),
        pytest.param({**MIXED, "method__targets": ("q_proj", "lm_head")}, id="an adapted head"),
        pytest.param({**MIXED, **SAVED}, id="trained copies of embedding and head: an fp32 residual stream"),
        pytest.param({**MIXED, **SAVED, **CHECKPOINTED}, id="trained copies, checkpointed"),
        pytest.param({**MIXED, **SAVED, **CHECKPOINTED, "loss__kind": "liger"}, id="trained copies, fused loss"),
        pytest.param({**MIXED, **DORA}, id="DoRA"),
        pytest.param({**MIXED, **DORA, **CHECKPOINTED}, id="DoRA, checkpointed"),
        pytest.param({**MIXED, **DORA, **DROPOUT}, id="DoRA with dropout computes the base twice"),
        pytest.param({**PURE, **DORA}, id="DoRA in pure bf16"),
        pytest.param({**MIXED, **DORA, "model__quantization": NF4}, id="DoRA over 4 bits gives fp32"),
        pytest.param({**MIXED, **DORA, "model__quantization": INT8}, id="DoRA over 8 bits gives fp32"),
        pytest.param(
            {**MIXED, **DORA, **CHECKPOINTED, "model__quantization": NF4}, id="DoRA over 4 bits, checkpointed"
        ),
        pytest.param({**PURE, **DORA, "model__quantization": NF4}, id="DoRA over 4 bits in pure bf16"),
        pytest.param({**MIXED, "model__quantization": NF4}, id="QLoRA does not cast inputs under autocast"),
        pytest.param({**MIXED, "model__quantization": INT8}, id="8 bits"),
        pytest.param({**MIXED, **DROPOUT, "model__quantization": NF4}, id="QLoRA with dropout"),
        pytest.param({**MIXED, **OFT}, id="OFT"),
        pytest.param({**MIXED, **OFT, **CHECKPOINTED}, id="OFT, checkpointed"),
        pytest.param({**PURE, **OFT}, id="OFT in pure bf16"),
        pytest.param({**MIXED, **OFT, "model__quantization": NF4}, id="OFT over 4 bits"),
        pytest.param(
            {**MIXED, "method__targets": ("q_proj", "down_proj"), "method__layers_to_transform": (2, 3)},
            id="layers below the first adapted one keep nothing",
        ),
    ],
)
def test_the_closed_form_agrees_with_the_simulated_step(changes: dict[str, object]) -> None:
    case = adapted(changes)
    found, step = phases(estimate(case)), simulate(case, {**TINY})
    assert found["forward"] == pytest.approx(step.forward, rel=0.02)
    assert found["backward"] == pytest.approx(step.backward, rel=0.02)
    assert found["optimizer_step"] == pytest.approx(step.optimizer_step, rel=0.035)  # OFT's index buffers


@pytest.mark.parametrize("names", [("lm_head",), ("embed_tokens",), ("lm_head", "embed_tokens")])
def test_copies_of_a_tied_matrix_go_their_own_way(names: tuple[str, ...]) -> None:
    case = run({"tie_word_embeddings": True}, **LORA, method__modules_to_save=names)
    case = case._replace(precision=Precision("bfloat16", True, "float32", False, outputs_to_fp32=True))
    found, step = phases(estimate(case)), simulate(case, {**TINY, "tie_word_embeddings": True})
    assert found["forward"] == pytest.approx(step.forward, rel=0.02)
    assert found["backward"] == pytest.approx(step.backward, rel=0.02)
    assert found["optimizer_step"] == pytest.approx(step.optimizer_step, rel=0.035)


def test_parameters_of_the_adapters_agree_with_peft() -> None:
    for changes in (OFT, DORA, SAVED, {"method__rank_pattern": (("q_proj", 32),)}):
        case = adapted({**MIXED, **changes})
        assert estimate(case).trainable_parameters == simulate(case, {**TINY}).trainable_parameters


def test_an_oft_block_that_does_not_divide_takes_the_nearest_that_does() -> None:
    wanted: dict[str, Any] = {**MIXED, **OFT, "method__oft_block_size": 30}
    case = adapted(wanted)
    assert estimate(case).trainable_parameters == simulate(case, {**TINY}).trainable_parameters


@pytest.mark.parametrize("kind", ["ia3", "prefix", "boft", "adalora", "loha", "vera"])
def test_other_adapters_are_unknown_with_a_lower_bound(kind: str) -> None:
    found = estimate(run(**LORA | {"method__kind": kind}))
    assert found.allocated_bytes is None and found.allocated_low_bytes
    assert found.unknown[0].field == "method.kind"
