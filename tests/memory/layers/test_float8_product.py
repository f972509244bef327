"""Linear layers in fp8: torchao's beside simulated steps, Transformer Engine's by its source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.referee.float8 import DATA, LIMIT, run_in_fp8
from memlint.memory.estimate import estimate
from memlint.run import replace
from tests.comparisons.families import Step, run_of

ROWS: list[dict[str, Any]] = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
LLAMA = next(row["model"] for row in ROWS)
STEPS = [Step(method, checkpointing, "sdpa") for method in ("full", "pure", "lora") for checkpointing in (False, True)]


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['model']['model_type']} {Step(*row['step']).name} {row['recipe']}"
)
def test_torchao_is_as_simulated(row: dict[str, Any]) -> None:
    found = estimate(run_in_fp8(row["model"], Step(*row["step"]))).allocated_bytes
    assert found is not None
    assert abs(found / row["peak"] - 1) < LIMIT


def _kept(engine: str, step: Step) -> int:
    return estimate(replace(run_of(LLAMA, step), {"precision.fp8": engine})).details["kept_activations_bytes"]


def test_transformer_engine_keeps_a_byte_of_inputs_and_two_of_weights() -> None:
    """In bf16 q, k and v share one input of two bytes, and gate and up another; each keeps its own copy in fp8. The
    output of attention is saved by attention as well."""
    step, tokens, hidden, inner = Step("pure", False, "sdpa"), 2 * 1024, 512, 1408
    weights = 4 * hidden * hidden + 3 * hidden * inner
    inputs = 6 * hidden + inner - 2 * (2 * hidden + inner)
    grown = (_kept("te", step) - _kept("none", step)) / 4
    assert grown == pytest.approx(2 * weights + tokens * inputs, rel=0.02)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_transformer_engine_is_an_interval_from_no_transposed_copies_to_a_head_in_fp8(step: Step) -> None:
    found = estimate(replace(run_of(LLAMA, step), {"precision.fp8": "te"}))
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    assert found.allocated_bytes is not None
    least = estimate(replace(run_of(LLAMA, step), {"precision.fp8": "te_rowwise"}))
    assert found.allocated_low_bytes <= found.allocated_bytes
    assert found.allocated_high_bytes == found.allocated_bytes + 32 * 2**20 + 2 * 4096 * 512
    assert least.unknown[0].field == "precision.fp8"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_mxfp8_has_both_copies_of_weights_and_at_most_a_scale_for_32_elements(step: Step) -> None:
    plain, scaled = (estimate(replace(run_of(LLAMA, step), {"precision.fp8": one})) for one in ("te", "te_mxfp8"))
    assert scaled.allocated_bytes == plain.allocated_bytes == scaled.allocated_low_bytes
    assert plain.allocated_high_bytes is not None
    assert scaled.allocated_high_bytes == plain.allocated_high_bytes * 33 // 32


@pytest.mark.parametrize(
    "changes",
    [
        {"parallelism.engine": "deepspeed", "parallelism.zero.stage": 3},
        {"parallelism.engine": "fsdp"},
        {"model.architecture": None},
    ],
    ids=["zero 3", "fsdp", "tied"],
)
def test_what_is_gathered_or_tied_is_unknown_under_transformer_engine(changes: dict[str, Any]) -> None:
    run = run_of(LLAMA, STEPS[0])
    tied = run.model.architecture._replace(tied_embeddings=True)
    changed = {key: tied if value is None else value for key, value in changes.items()}
    found = estimate(replace(run, {"precision.fp8": "te", "parallelism.world_size": 2, **changed}))
    assert "precision.fp8" in {one.field for one in found.unknown}
