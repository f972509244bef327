"""Keys and values that the language model of an image-text model caches in layers below the first that trains, beside a
simulated step."""

from __future__ import annotations

import pytest

from memlint.architectures import from_config
from memlint.memory.estimate import estimate
from memlint.run import (
    Attention,
    Batch,
    Checkpointing,
    Evaluation,
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
from tests.comparisons.families import members


@pytest.mark.parametrize("checkpointing", ("none", "full"))
@pytest.mark.parametrize("autocast", (False, True))
def test_layers_without_a_graph_cache_too(autocast: bool, checkpointing: str) -> None:
    config = {**members()["qwen2_vl"], "num_hidden_layers": 6}
    trainable = "float32" if autocast else "bfloat16"
    method = Method("freeze", freeze_trainable_layers=1, freeze_vision_tower=True, freeze_multi_modal_projector=True)
    run = Run(
        "test",
        "",
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=method,
        precision=Precision("bfloat16", autocast, trainable, False, outputs_to_fp32=autocast),
        batch=Batch(2, 1),
        sequence=Sequence(1024),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing(checkpointing),
        loss=Loss("plain"),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
        evaluation=Evaluation(enabled=False),
    )
    real = simulate(run, config)
    said = {phase.name: phase.allocated_bytes for phase in estimate(run).phases}
    assert said["forward"] == pytest.approx(real.forward, rel=0.01)
