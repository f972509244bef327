"""Llama 4's experts as quantised linear layers, one after another, beside a simulated step of such experts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers.models.llama4.modeling_llama4 as llama4
from torch import nn

import memlint.simulation.quantized as quantized
from memlint.memory import estimate
from memlint.run import Quantization, replace
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of

SHAPE = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "intermediate_size_mlp": 2048,
    "num_local_experts": 16,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
}


class OneByOne(nn.Module):  # type: ignore[misc]
    """What axolotl 0.19.0 monkeypatch/models/llama4/modeling.py, Llama4TextExperts, holds."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.hidden = config.hidden_size
        shapes = ((self.hidden, config.intermediate_size),) * 2 + ((config.intermediate_size, self.hidden),)
        count = config.num_local_experts
        self.parts = nn.ModuleList(nn.ModuleList(nn.Linear(*one, bias=False) for one in shapes) for _ in range(count))

    def forward(self, x: Any) -> Any:
        rows = x.view(len(self.parts), -1, self.hidden)
        found = torch.zeros_like(rows)
        for index, (gate, up, down) in enumerate(self.parts):
            opened, wide = gate(rows[index]), up(rows[index])
            found[index] = down(wide * nn.functional.silu(opened))
        return found.view(-1, self.hidden)


def _leaving_routers(model: Any, bits: int, double: bool, compute: Any) -> None:
    head = model.get_output_embeddings()
    for name, module in list(model.named_modules()):
        if type(module) is nn.Linear and module is not head:
            parent, _, last = name.rpartition(".")
            setattr(model.get_submodule(parent), last, quantized.QuantizedLinear(module, bits, double, compute))


@pytest.mark.parametrize(("checkpointing", "reentrant"), [(False, False), (True, True), (True, False)])
def test_a_step_holds_what_a_simulated_one_does(
    checkpointing: bool, reentrant: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(llama4, "Llama4TextExperts", OneByOne)
    monkeypatch.setattr(quantized, "quantise", _leaving_routers)
    config = {**members()["llama4_text"], **SHAPE}
    changes = {
        "model.quantization": Quantization("bnb", 4, "nf4", True, stacked_experts=True),
        "method.targets": ("q_proj", "v_proj"),
        "checkpointing.reentrant": reentrant,
        "sequence.length": 512,
    }
    run = replace(run_of(config, Step("lora", checkpointing, "sdpa")), changes)
    found, step = {phase.name: phase.allocated_bytes for phase in estimate(run).phases}, simulate(run, config)
    assert found["forward"] == pytest.approx(step.forward, rel=0.05)
    assert found["backward"] == pytest.approx(step.backward, rel=0.05)
