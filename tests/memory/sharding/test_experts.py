"""Stacked experts on the real engines: whole, frozen beneath adapters of attention, and with adapters of their own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.comparisons.sharding import FOLDER, PHASES, estimate_errors
from tests.comparisons.sharding_predict import estimated

ROWS = [json.loads(line) for line in (FOLDER / "experts.jsonl").read_text("utf-8").splitlines()]
# Settings that gather and release at once count two moments as one; those of other names are closer.
WIDER = {"adapted-tight": 0.15, "tight": 0.06, "live2e6": 0.035, "full-4": 0.035, "no-reshard": 0.035}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["setting"]["name"])
def test_estimates_of_stacked_experts_are_those_of_the_engines(row: dict[str, Any]) -> None:
    name = row["setting"]["name"]
    bound = next((share for ending, share in WIDER.items() if name.endswith(ending)), 0.03)
    found = estimate_errors([row])[name]
    assert {phase: error for phase, error in found.items() if abs(error) > bound} == {}
    assert set(found) == set(PHASES[1:])


def forward(setting: dict[str, Any]) -> int:
    """Bytes of activations at the forward's peak."""
    phases = {phase.name: phase.components for phase in estimated({**SETTING, **setting}).phases}
    return phases["forward"]["activations"]


SETTING: dict[str, Any] = next(
    row["setting"] for row in ROWS if row["setting"]["name"] == "zero3-lora-no-checkpointing"
)
ROUTER_INPUTS = 131_072  # bytes: 4 layers, of two in bf16, 64 tokens of 256 elements
STACKS = 4 * 2 * 8 * 3 * 192 * 256  # bytes: layers, of two in bf16, experts, three matrices


def test_zero3_keeps_every_gathered_stack_until_its_backward() -> None:
    """Beside them the input of each layer's router, which DeepSpeed's own linear function keeps."""
    stage2 = forward({"zero": {"stage": 2, "reduce_bucket_size": 100_000}})
    stage3 = SETTING["zero"]
    inputs = forward({}) - forward({"zero": {**stage3, "memory_efficient_linear": False}})
    assert forward({}) - inputs == pytest.approx(stage2 + STACKS, rel=0.01)
    assert inputs == ROUTER_INPUTS


def test_stacks_are_not_kept_twice() -> None:
    """One rank uses its partitions in place, and a layer that is computed again saves nothing."""
    assert forward({"world": 1}) < STACKS
    assert forward({"checkpointing": True}) < STACKS
