"""Quantised models as TRL prepares them: fp32 norms beside a bf16 vocabulary, and what is there in between."""

from __future__ import annotations

import warnings

import pytest

from memlint.memory import estimate
from memlint.memory.state.parameters import units
from memlint.run import Precision, Quantization, Run
from memlint.simulation import simulate
from tests.memory.runs import LORA, TINY, run

VOCABULARY = TINY["vocab_size"] * TINY["hidden_size"]
AUTOCAST = {"precision": Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)}


def prepared(upcast: bool, back: bool, checkpointing: str = "none") -> Run:
    four = Quantization("bnb", 4, "nf4", upcast_rest_to_fp32=upcast, vocabulary_to_bf16=back)
    changes = {"model__quantization": four, "method__adapter_dtype": "float32", "checkpointing__mode": checkpointing}
    return run(**changes, **LORA, **AUTOCAST)


def phases(found: Run) -> dict[str, int]:
    return {phase.name: phase.allocated_bytes for phase in estimate(found).phases}


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize(("upcast", "back"), [(False, False), (True, False), (True, True)])
def test_a_step_beside_the_real_code(upcast: bool, back: bool, checkpointing: str) -> None:
    """Behind fp32 norms 4-bit layers give fp32, and so does the residual stream from the first MLP on."""
    found = prepared(upcast, back, checkpointing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = simulate(found, TINY)
    ours = phases(found)
    assert ours["forward"] == pytest.approx(real.forward, rel=0.001)
    assert ours["backward"] == pytest.approx(real.backward, rel=0.001)


def test_a_vocabulary_cast_back_takes_half() -> None:
    details = [estimate(prepared(True, back)).details["weights_bytes"] for back in (False, True)]
    assert details[0] - details[1] == 2 * 2 * VOCABULARY  # embedding and head


def test_the_vocabulary_is_in_fp32_for_a_moment() -> None:
    """peft utils/other.py, prepare_model_for_kbit_training: one parameter after another, before adapters come."""
    loaded, found = phases(prepared(True, True)), units(prepared(True, True))
    frozen = [(unit.repeat, one) for unit in found for one in unit.tensors if not one.trainable]
    quantised = sum(repeat * one.stored_bytes for repeat, one in frozen if one.dtype == "nf4")
    norms = sum(repeat * one.stored_bytes for repeat, one in frozen if one.kind == "norm")
    assert loaded["load"] == pytest.approx(quantised + norms + (4 + 4 + 2) * VOCABULARY, abs=2048)
