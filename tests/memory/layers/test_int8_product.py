"""LLM.int8: peaks of a step over 8-bit weights beside those of a simulated one (torch 2.13.0, transformers 5.23.0)."""

from __future__ import annotations

import pytest

from memlint.question import answer, question_of

SIMULATED = {  # bytes, forward and backward; fp16 products need no copy in another dtype
    "bf16": (2134815232, 2289432576),
    "fp16": (3157996032, 3311695872),
}


@pytest.mark.parametrize("dtype", SIMULATED)
def test_inputs_are_kept_for_the_backward(dtype: str) -> None:
    asked = {"model": "qwen2.5-0.5b", "method": "lora", "bits": 8, "length": 512, "checkpointing": False}
    found = answer(question_of({**asked, "dtype": dtype})).run.estimate
    peaks = {phase.name: phase.allocated_bytes for phase in found.phases}
    assert (peaks["forward"], peaks["backward"]) == pytest.approx(SIMULATED[dtype], rel=1e-4)
