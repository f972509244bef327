"""A step whose loss is a policy's and a value model's, beside fake tensors: TRL's PPO.

    python benchmarks/referee/value_step.py            8 cases
    python benchmarks/referee/value_step.py --write    the same, written to benchmarks/data/value_step.jsonl

As trl 0.22 computes it (trainer/ppo_trainer.py, PolicyAndValueWrapper): the value model's forward, then the policy's,
one backward of both, no checkpointing, and the logits held until the step is done.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

import benchmarks.referee.beside as beside
import benchmarks.referee.fake_step as fake_step
import memlint.simulation.precision as precision
from benchmarks.referee.rollout_phases import LAYERS, MODELS, SHAPE
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
    Rollout,
    Run,
    Sequence,
    ValueModel,
)
from memlint.simulation.tracker import Tracker

DATA = Path(__file__).resolve().parents[1] / "data" / "value_step.jsonl"
SIZES = ((2, 512), (4, 1024))


def cases() -> Iterator[dict[str, Any]]:
    for (kind, model), (rows, length) in itertools.product(MODELS, SIZES):
        yield {"config_class": kind, "config": {**model, **SHAPE, **LAYERS}, "B": rows, "S": length}


def simulated(case: dict[str, Any]) -> dict[str, int]:
    """Bytes beside the weights of both models at the peak of each phase."""
    return fake_step.phases(case, _step, _with_value_model)


def _with_value_model(case: dict[str, Any]) -> fake_step.Models:
    policy, backbone = fake_step.model_of(case), fake_step.model_of(case).model
    hidden_size = case["config"]["hidden_size"]
    backbone.score = torch.nn.Linear(hidden_size, 1, bias=False, dtype=torch.bfloat16, device="meta")
    return policy, backbone


def _step(models: fake_step.Models, ids: torch.Tensor, tracker: Tracker) -> None:
    policy, backbone = models
    for model in models:
        model.train()
    tracker.begin("forward")
    with precision.autocast(torch.bfloat16):
        values = backbone.score(backbone(input_ids=ids, use_cache=False).last_hidden_state)
        outputs = policy(input_ids=ids, use_cache=False)
    values, logits = values.float(), outputs.logits.float()
    del outputs
    index = ids[:, 1:].unsqueeze(2)
    loss = torch.gather(logits[:, :-1].log_softmax(-1), 2, index).sum() + values.sum()
    tracker.begin("backward")
    loss.backward()


def predicted(case: dict[str, Any]) -> dict[str, int]:
    model = Model(architecture=from_config(case["config"]), weights_dtype="bfloat16")
    value = ValueModel(model, case["B"], checkpointed=False, in_one_step=True)
    run = Run(
        "test",
        "",
        model=model,
        method=Method("full", stage="ppo", value_model=value),
        precision=Precision("bfloat16", True, "bfloat16", False, outputs_to_fp32=True),
        batch=Batch(case["B"], 1),
        sequence=Sequence(case["S"]),
        attention=Attention("flash_attention_2"),
        checkpointing=Checkpointing("none"),
        loss=Loss("plain", prompt_logits=True, keeps_logits=True, upcast_logits=False),
        rollout=Rollout("vllm"),
        optimizer=Optimizer("sgd"),
        parallelism=Parallelism(1, 1, 1),
    )
    found = {one.name: one for one in estimate(run).phases}
    return {name: one.allocated_bytes - one.components["weights"] for name, one in found.items()}


def main() -> int:
    return beside.main(__doc__, DATA, cases, simulated, predicted, _title)


def _title(case: dict[str, Any]) -> str:
    return f"{case['config_class']:14} {case['B']}x{case['S']:<5}"


if __name__ == "__main__":
    raise SystemExit(main())
