"""A step of torchtune's modules, beside the simulated ones in benchmarks/data: layers that expand keys and values,
losses that score the logits in parts, 4-bit weights that torch's operators dequantise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.referee.torchtune_runs import predicted, run_of
from memlint.memory.estimate import estimate
from memlint.run import replace

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "torchtune_step.jsonl"
CASES: list[dict[str, Any]] = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
PEAK, DORA, PHASE = 0.02, 0.045, 0.15  # relative errors of the higher phase, of DoRA's, and of the other phase


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_step_is_the_simulated_one(case: dict[str, Any]) -> None:
    said, real = predicted(case), case["result"]
    most = DORA if case["method"] == "dora" else PEAK
    assert max(said.values()) == pytest.approx(max(real.values()), rel=most)
    assert all(said[phase] == pytest.approx(size, rel=PHASE) for phase, size in real.items())


def case(**fields: Any) -> dict[str, Any]:
    given = {"method": "full", "recomputes": True, "loss": "chunked_output", "words": 32000, "B": 2, "S": 512}
    return {**given, **fields}


def backward(run: Any) -> int:
    return next(one.allocated_bytes for one in estimate(run).phases if one.name == "backward")


def test_a_compiled_loss_keeps_the_logits_in_their_own_dtype() -> None:
    run = run_of(case(loss="linear", method="lora_mlp", B=8))
    logits = 8 * 512 * 32000
    saved = backward(run) - backward(replace(run, {"loss.compiled": True}))
    assert 2 * logits <= saved <= 3 * logits  # of all parts, and of the one that is scored what is fp32 for a moment


def test_more_parts_hold_less_at_once() -> None:
    run = run_of(case())
    assert backward(replace(run, {"loss.parts": 16})) <= backward(run) < backward(replace(run, {"loss.parts": 2}))


def test_a_table_of_every_layer_is_counted_for_each() -> None:
    run = run_of(case())
    kinds = run.model.architecture.layer_types
    copied = [kind._replace(class_name=f"{kind.class_name}Copy") for kind in kinds]
    more = replace(run, {"model.architecture": run.model.architecture._replace(layer_types=tuple(copied))})
    assert backward(more) - backward(run) == 3 * 4096 * 64 * 4  # of the other three layers
