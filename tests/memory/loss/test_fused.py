"""Losses in chunks: what verl's kernel holds of one, counted in fp32 logits of a chunk and in heads."""

from __future__ import annotations

import pytest

from memlint.memory import estimate
from memlint.run import Precision
from memlint.simulation import simulate
from tests.memory.runs import LORA, run

WORDS, HIDDEN, ROWS = 160_000, 2560, 512
CONFIG = {"vocab_size": WORDS, "hidden_size": HIDDEN, "num_attention_heads": 20, "num_hidden_layers": 1}
CHUNK, HEAD = ROWS * WORDS * 4, WORDS * HIDDEN * 2


def backward(**changes: object) -> int:
    """Allocated bytes at the peak of the backward, of a loss in chunks of 512 of 2048 tokens."""
    chunked = {"loss__kind": "chunked", "loss__chunk_tokens": ROWS, "method__stage": "grpo", "sequence__length": 2048}
    found = estimate(run(CONFIG, **chunked, **changes))
    return next(sum(one.components.values()) for one in found.phases if one.name == "backward")


@pytest.mark.parametrize("method", [LORA, {}], ids=["adapter", "full"])
def test_the_backward_of_verls_kernel_holds_a_chunk_and_two_gradients_of_the_head(method: dict[str, object]) -> None:
    """The kernel's own code on fake tensors (verl 0.9.1, Qwen3-4B's sizes) takes 8.52 chunks with a frozen head of 2.5,
    11.02 with a trained one, whose sum is a third, and one more where the entropy has a gradient."""
    released, held = backward(**method), backward(**method, loss__holds_chunks=True)
    with_entropy = backward(**method, loss__holds_chunks=True, loss__entropy="whole")

    assert held - released == pytest.approx(0.5 * CHUNK + 2 * HEAD, rel=0.02)  # hidden states beside them
    assert with_entropy - held == CHUNK


MIXED = {"precision": Precision("bfloat16", True, "float32", True), "model__weights_dtype": "float32"}


@pytest.mark.parametrize("length", [128, 256, 1024])
@pytest.mark.parametrize("precision", [{}, MIXED], ids=["bf16", "autocast"])
def test_the_heads_gradient_waits_for_a_chunk_in_backward_and_is_converted_after_the_last(
    precision: dict[str, object], length: int
) -> None:
    """One chunk has no sum of gradients beside its logits, several sum in the dtype of the product."""
    sizes = {"vocab_size": 32000, "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}
    one = run(
        sizes,
        **precision,
        loss__kind="chunked",
        loss__chunk_tokens=256,
        batch__micro_batch_size=1,
        sequence__length=length,
    )
    found = next(phase for phase in estimate(one).phases if phase.name == "backward")
    assert found.allocated_bytes == pytest.approx(simulate(one).backward, rel=0.003)
