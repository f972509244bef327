"""The embedding, and every layer's own one in Gemma 4 E2B, beside a simulated step."""

from __future__ import annotations

import pytest

from memlint.memory.autograd.tape import Parameter
from memlint.memory.estimate import estimate
from memlint.memory.layers.embedding import EmbeddingShape, embedding_profile
from memlint.simulation import simulate
from tests.comparisons.families import Step, members, run_of


@pytest.mark.parametrize("method", ["full", "pure", "lora"])
def test_layers_own_embeddings_are_those_of_a_simulated_step(method: str) -> None:
    config = members()["gemma4/own_embeddings"]
    run = run_of(config, Step(method, False, "sdpa"))
    found, real = estimate(run), simulate(run, config)
    assert (found.parameters, found.trainable_parameters) == (real.parameters, real.trainable_parameters)
    assert found.allocated_bytes == pytest.approx(max(real.forward, real.backward), rel=0.02)


def test_a_frozen_table_needs_no_gradient() -> None:
    frozen, trained = (
        embedding_profile(Parameter("w:embedding", 2, trains), EmbeddingShape(), True) for trains in (False, True)
    )
    assert not frozen.backward.tensor_sizes or len(frozen.backward.tensor_sizes) < len(trained.backward.tensor_sizes)
