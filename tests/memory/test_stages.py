"""Losses that trainers compute from the model's output, against the simulated step."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.memory.estimate import estimate_uncached
from memlint.memory.values import Estimate
from memlint.run import Precision
from memlint.simulation import simulate
from tests.frameworks import LLAMAFACTORY
from tests.memory.runs import LORA, TINY, run

WIDE = {**TINY, "vocab_size": 16000}
MIXED = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)
SHARED: dict[str, object] = {"method__stage": "dpo", "method__reference_model": "shared"}


def phases(found: Estimate) -> dict[str, int]:
    assert found.allocated_bytes is not None, found.unknown
    return {phase.name: phase.allocated_bytes for phase in found.phases}


@pytest.mark.parametrize("mixed", [True, False], ids=["mixed", "pure"])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(SHARED, id="DPO beside its own base"),
        pytest.param({"method__stage": "simpo"}, id="SimPO"),
        pytest.param({"method__stage": "cpo", "loss__likelihood_of_chosen": True}, id="CPO"),
        pytest.param(
            {"method__stage": "orpo", "loss__likelihood_of_chosen": True, "checkpointing__mode": "full"},
            id="ORPO of TRL",
        ),
        pytest.param({"loss__label_smoothing": 0.1}, id="label smoothing"),
        pytest.param({"loss__label_smoothing": 0.1, "checkpointing__mode": "full"}, id="smoothing, checkpointed"),
    ],
)
def test_the_closed_form_agrees_with_the_simulated_step(changes: dict[str, object], mixed: bool) -> None:
    case = run(WIDE, **{**LORA, "method__adapter_dtype": "float32" if mixed else "bfloat16", **changes})
    case = case._replace(precision=MIXED) if mixed else case
    found, step = phases(estimate_uncached(case, simulated=True)), simulate(case, WIDE)
    assert found["forward"] == pytest.approx(step.forward, rel=0.01)
    assert found["backward"] == pytest.approx(step.backward, rel=0.01)


def test_label_smoothing_builds_the_logits_that_a_fused_loss_would_not() -> None:
    """The Trainer takes the labels away from the model, whose fused loss then does not run."""
    fused = estimate(run(WIDE, **LORA, loss__kind="liger"))
    smoothed = estimate(run(WIDE, **LORA, loss__kind="liger", loss__label_smoothing=0.1))
    assert fused.details["whole_logits_bytes"] == 0 < smoothed.details["whole_logits_bytes"]
    assert smoothed.allocated_bytes is not None and fused.allocated_bytes is not None
    assert smoothed.allocated_bytes > fused.allocated_bytes


def test_a_reward_model_of_trl_has_a_score_in_place_of_the_head() -> None:
    """trl 1.16 reward_trainer.py:396, num_labels 1; LLaMA-Factory keeps the head and makes its logits."""
    factory = estimate(run(WIDE, **LORA, method__stage="rm", **LLAMAFACTORY))
    trl = estimate(run(WIDE, **LORA, method__stage="rm", stack__framework="trl"))
    assert factory.parameters is not None and trl.parameters is not None
    assert factory.parameters - trl.parameters == 16000 * 256
    assert trl.details["logits_bytes"] == 0
