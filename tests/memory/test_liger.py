"""Liger's kernels in decoder layers, against a simulated step with stand-ins that keep what the kernels keep."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.run import Precision, Run
from memlint.simulation import simulate
from tests.memory.runs import LORA, TINY, run

WIDE_HEAD: dict[str, Any] = {"head_dim": 64}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen3": WIDE_HEAD,
    "gemma": WIDE_HEAD,
    "granite": {},
    "gemma3_text": {**WIDE_HEAD, "query_pre_attn_scalar": 64},
    "olmo2": {},
}
FUSED: dict[str, object] = {"loss__kind": "liger", "loss__liger_kernels": True}


def case(family: str, **changes: object) -> tuple[Run, dict[str, Any]]:
    config = {**TINY, "model_type": family, **FAMILIES[family]}
    config.pop("architectures")
    return run({**config, "architectures": None}, **{**FUSED, **changes}), config


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["lora", "pure"])
@pytest.mark.parametrize("mode", ["none", "full"])
def test_the_closed_form_agrees_with_the_simulated_step(family: str, kind: str, mode: str) -> None:
    one, config = case(family, checkpointing__mode=mode, **(LORA if kind == "lora" else {}))
    if kind == "lora":
        one = one._replace(precision=Precision("bfloat16", True, "float32", False, outputs_to_fp32=True))
    found = {phase.name: phase.allocated_bytes for phase in estimate(one).phases}
    step = simulate(one, config)
    assert found["backward"] == pytest.approx(step.backward, rel=0.025)
    assert found["forward"] == pytest.approx(step.forward, rel=0.03)


def test_liger_layers_keep_less_than_plain_ones() -> None:
    with_kernels, _ = case("llama")
    without, _ = case("llama", loss__liger_kernels=False)
    kept = [estimate(one).details["kept_activations_bytes"] for one in (with_kernels, without)]
    assert kept[0] < 0.75 * kept[1]


def test_an_evaluation_builds_the_logits_unless_told_to_skip_them() -> None:
    """A model that Liger patched fuses the loss only while it trains: lce_forward, `skip_logits = self.training and
    labels is not None` (liger_kernel 0.8.5 transformers/model/qwen2.py)."""

    def evaluated(**changes: object) -> int:
        one, _ = case("llama", evaluation__enabled=True, evaluation__batch_size=4, **changes)
        return next(phase.allocated_bytes for phase in estimate(one).phases if phase.name == "evaluation")

    plain = evaluated(loss__kind="plain")
    assert evaluated() == plain
    assert evaluated(evaluation__fused_loss=True) < plain


def test_families_whose_layers_are_not_described_stay_an_upper_bound() -> None:
    plain = estimate(run({"model_type": "phi3", "architectures": None, "pad_token_id": 0}, loss__kind="liger"))
    patched = estimate(run({"model_type": "phi3", "architectures": None, "pad_token_id": 0}, **FUSED))
    assert patched.allocated_bytes == plain.allocated_bytes
