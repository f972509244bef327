"""The gradient of tied embeddings, which the head makes and the embedding adds to, beside a simulated step."""

from __future__ import annotations

import pytest

from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Loss,
    Method,
    Model,
    Optimizer,
    Parallelism,
    Precision,
    Run,
    Sequence,
)
from memlint.simulation import simulate

CONFIG = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 8000,
    "tie_word_embeddings": True,
}


def run(accumulation: int, loss: str, autocast: bool) -> Run:
    trainable = "float32" if autocast else "bfloat16"
    return Run(
        "test",
        "",
        model=Model(architecture=from_config(CONFIG), weights_dtype="bfloat16"),
        method=Method("full"),
        precision=Precision("bfloat16", autocast, trainable, False, outputs_to_fp32=autocast),
        batch=Batch(1, accumulation),
        sequence=Sequence(64),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("none"),
        loss=Loss(loss),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )


@pytest.mark.parametrize("accumulation", (1, 2))
@pytest.mark.parametrize("loss", ("plain", "liger"))
@pytest.mark.parametrize("autocast", (False, True))
def test_it_waits_beside_what_was_accumulated(accumulation: int, loss: str, autocast: bool) -> None:
    one = run(accumulation, loss, autocast)
    real = simulate(one, CONFIG)
    said = {phase.name: phase.allocated_bytes for phase in estimate(one).phases}
    assert said["forward"] == pytest.approx(real.forward, rel=0.005)
    assert said["backward"] == pytest.approx(real.backward, rel=0.005)
