"""Features that slice: a loss in chunks or tiles and tiled MLPs, against simulated steps that slice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers.models.llama.modeling_llama as llama

import memlint.simulation.step as simulated
from memlint.memory import estimate
from memlint.run import Precision, Quantization, Run, replace
from memlint.simulation import simulate
from memlint.simulation.precision import run_backward
from tests.comparisons.families import Step, run_of

SMALL: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "vocab_size": 352,
}


class Tiled(torch.autograd.Function):  # type: ignore[misc]
    """What axolotl 0.19.0 monkeypatch/tiled_mlp/base.py, TiledMLP, holds: the input; in the backward its gradient, sums
    of the parameters' gradients, and one slice at a time."""

    @staticmethod
    def forward(ctx: Any, run: Callable[[Any], Any], x: Any, tiles: int, parameters: list[Any]) -> Any:
        ctx.run, ctx.tiles, ctx.parameters = run, tiles, parameters
        ctx.save_for_backward(x)
        with torch.no_grad():
            return torch.cat([run(one) for one in x.chunk(tiles, dim=1)], dim=1)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        (x,) = ctx.saved_tensors
        made, sums = torch.zeros_like(x), [torch.zeros_like(one) for one in ctx.parameters]
        for part, arriving in zip(x.chunk(ctx.tiles, dim=1), grads[0].chunk(ctx.tiles, dim=1), strict=True):
            _one_slice(ctx, part.detach().requires_grad_(True), arriving, sums)
        for one, total in zip(ctx.parameters, sums, strict=True):
            one.grad = total
        return None, made, None, None


def _one_slice(ctx: Any, part: Any, arriving: Any, sums: list[Any]) -> None:
    with torch.enable_grad():
        out = ctx.run(part)
    run_backward(out, arriving)
    for one, total in zip(ctx.parameters, sums, strict=True):
        total += one.grad
        one.grad = None


@contextmanager
def tiled(tiles: int) -> Iterator[None]:
    original = llama.LlamaMLP.forward
    llama.LlamaMLP.forward = lambda self, x: Tiled.apply(
        lambda part: original(self, part), x, tiles, [one for one in self.parameters() if one.requires_grad]
    )
    try:
        yield
    finally:
        llama.LlamaMLP.forward = original


def in_chunks(logits: Any, labels: Any, vocab_size: int = 0, **more: Any) -> Any:
    """axolotl 0.19.0 monkeypatch/loss/chunked.py, uncompiled: eight chunks of the logits go to fp32."""
    labels = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
    parts = zip(logits.chunk(8, dim=1), labels.chunk(8, dim=1), strict=True)
    return sum(
        torch.nn.functional.cross_entropy(part.reshape(-1, part.size(-1)).float(), one.reshape(-1), reduction="sum")
        for part, one in parts
    )


def holds(run: Run, peak: int) -> bool:
    found = estimate(run)
    assert found.allocated_low_bytes is not None and found.allocated_high_bytes is not None
    return 0.99 * found.allocated_low_bytes <= peak <= found.allocated_high_bytes


@pytest.mark.parametrize("length", [1024, 2048])
@pytest.mark.parametrize("tiles", [1, 2, 4, 8])
def test_tiled_mlps_lie_between_one_tile_and_the_whole(length: int, tiles: int) -> None:
    run = replace(run_of(SMALL, Step("pure", True, "sdpa")), {"sequence.length": length})
    with tiled(tiles):
        step = simulate(run, SMALL)
    assert holds(replace(run, {"checkpointing.mlp_tiles": tiles}), step.peak)


HALF_UNDER_AUTOCAST = Precision("bfloat16", True, "bfloat16", False)
ADAPTED = {
    "method.targets": ("q_proj", "gate_proj", "up_proj", "down_proj"),
    "method.rank": 8,
    "model.weights_dtype": "bfloat16",
}


@pytest.mark.parametrize(
    ("step", "changes"),
    [
        (Step("pure", True, "sdpa"), {"precision": HALF_UNDER_AUTOCAST}),
        (Step("lora", True, "sdpa"), {"model.weights_dtype": "bfloat16"}),
        (Step("lora", True, "sdpa"), ADAPTED),
        (Step("lora", True, "sdpa"), {**ADAPTED, "model.quantization": Quantization("bnb", 4, "nf4")}),
    ],
)
@pytest.mark.parametrize("tiles", [1, 2, 8])
def test_so_they_do_under_autocast_and_with_adapters(step: Step, changes: dict[str, Any], tiles: int) -> None:
    run = replace(run_of(SMALL, step), {"sequence.length": 2048, **changes})
    with tiled(tiles):
        simulated_step = simulate(run, SMALL)
    assert holds(replace(run, {"checkpointing.mlp_tiles": tiles}), simulated_step.peak)


@pytest.mark.parametrize("step", [Step("pure", False, "sdpa"), Step("full", True, "sdpa"), Step("lora", True, "sdpa")])
def test_a_loss_in_chunks_lies_between_a_fused_and_a_plain_one(step: Step, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {**SMALL, "vocab_size": 16384}
    run = run_of(config, step)
    monkeypatch.setattr(simulated, "_set_loss", lambda model, settings: setattr(model, "loss_function", in_chunks))
    assert holds(replace(run, {"loss.in_chunks": True}), simulate(run, config).peak)


@pytest.mark.parametrize("method", ["pure", "full", "lora"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize(("vocabulary", "length"), [(65536, 1024), (40000, 8192)])
def test_a_fused_head_holds_a_tile_and_sums_in_fp32(
    method: str, checkpointing: bool, vocabulary: int, length: int
) -> None:
    config = {**SMALL, "vocab_size": vocabulary, "hidden_size": 512}
    changes = {"loss.kind": "fused_head", "loss.chunk_tokens": 4096, "sequence.length": length}
    run = replace(run_of(config, Step(method, checkpointing, "sdpa")), changes)
    step, phases = simulate(run, config), {phase.name: phase.allocated_bytes for phase in estimate(run).phases}
    assert phases["forward"] == pytest.approx(step.forward, rel=0.001)
    assert phases["backward"] == pytest.approx(step.backward, rel=0.001)
