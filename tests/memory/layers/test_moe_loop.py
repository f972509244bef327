"""Adapters on experts that are linear layers, as transformers has them before version 5."""

from __future__ import annotations

from typing import Any

import pytest

from memlint.memory import estimate
from memlint.memory.state.parameters import units
from memlint.run import Precision, Run
from tests.memory.runs import run

EXPERTS, HIDDEN, INNER, RANK = 8, 256, 128, 16
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "architectures": None,
    "hidden_size": HIDDEN,
    "moe_intermediate_size": INNER,
    "num_hidden_layers": 1,
    "head_dim": 64,
    "num_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "vocab_size": 128,
}
MIXED = Precision("bfloat16", True, "float32", False, outputs_to_fp32=True)


def adapted(*targets: str, **changes: object) -> Run:
    base: dict[str, Any] = {
        "method__kind": "lora",
        "method__rank": RANK,
        "method__targets": ("q_proj", *targets),
        "method__adapter_dtype": "float32",
        "stack__transformers": (4, 57),
        "sequence__length": 512,
        "attention__implementation": "sdpa",
    }
    return run(CONFIG, **{**base, **changes})


def adapters(one: Run) -> int:
    found = units(one)
    return sum(tensor.numel * unit.repeat for unit in found for tensor in unit.tensors if tensor.kind == "adapter")


def test_each_experts_layers_have_adapters_of_their_own() -> None:
    """147,456 numbers in a model of peft 0.18 and transformers 4.57.1."""
    each = 3 * RANK * (HIDDEN + INNER)
    assert adapters(adapted("gate_proj", "up_proj", "down_proj")) - adapters(adapted()) == EXPERTS * each == 147456
    assert adapters(adapted("up_proj")) - adapters(adapted()) == EXPERTS * each // 3
    assert adapters(adapted("down_proj")) - adapters(adapted()) == EXPERTS * each // 3


def test_every_linear_layer_includes_the_experts() -> None:
    whole = {"method__targets": ("all-linear",)}
    more = adapters(adapted(**whole)) - adapters(adapted(**whole, method__exclude_modules=("up_proj", "down_proj")))
    assert more == EXPERTS * 2 * RANK * (HIDDEN + INNER)


@pytest.mark.parametrize(
    ("dropout", "autocast", "saved"),
    [(0.0, True, 3112960), (0.0, False, 5636096), (0.1, True, 4423680), (0.1, False, 6946816)],
)
def test_what_they_save_is_what_autograd_saved(dropout: float, autocast: bool, saved: int) -> None:
    """Bytes of the tensors that saved_tensors_hooks saw beside those of the same model without adapters on its experts:
    512 tokens of 2 sequences, transformers 4.57.1, peft 0.18.0, torch 2.13 on a CPU, whose masks of dropout have four
    bytes instead of one."""
    changes = {"method__dropout": dropout, **({"precision": MIXED} if autocast else {})}

    def activations(*targets: str) -> int:
        found = estimate(adapted(*targets, **changes))
        return next(one.components["activations"] for one in found.phases if one.name == "forward")

    assert activations("gate_proj", "up_proj", "down_proj") - activations() == pytest.approx(saved, rel=0.05)
