"""Accuracy of the closed form: against simulated steps, phase by phase."""

from __future__ import annotations

import json
from typing import Any

from memlint.architectures import from_config
from memlint.memory.estimate import estimate_uncached
from memlint.memory.values import Estimate
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

_PHASES = (("fwd", "forward"), ("bwd", "backward"), ("opt", "optimizer_step"))
_OPTIMIZERS = {"fused": "adamw_torch_fused", "adamw": "adamw_torch", "sgd": "sgd", "sgdm": "sgd"}


def run_of(row: dict[str, Any]) -> Run:
    """The Run that a simulated step executed."""
    pure = row["pure"]
    lora = row["method"] == "lora"
    targets = ("all-linear",) if row["lora_targets"] == "all" else tuple(row["lora_targets"] or ())
    attention = "flash_attention_2" if row["attn"] == "flash" else row["attn"]
    return Run(
        "simulated",
        row["id"],
        model=Model(architecture=from_config(configuration(row)), weights_dtype="bfloat16"),
        method=Method(
            row["method"],
            rank=row["r"] if lora else 0,
            alpha=16,
            targets=targets,
            freeze_trainable_layers=0 if lora else row["r"],
            adapter_dtype="bfloat16" if pure else "float32",
        ),
        precision=Precision("bfloat16", not pure, "bfloat16" if pure else "float32", False, outputs_to_fp32=not pure),
        batch=Batch(row["B"], 1),
        sequence=Sequence(row["S"]),
        attention=Attention(attention),
        checkpointing=Checkpointing("full" if row["ckpt"] else "none"),
        loss=Loss("plain"),
        optimizer=Optimizer(_OPTIMIZERS[row["optim"]], momentum=0.9 if row["optim"] == "sgdm" else 0.0),
        parallelism=Parallelism(1, 1, 1),
        evaluation=Evaluation(enabled=False),
    )


def configuration(row: dict[str, Any]) -> dict[str, Any]:
    """The row's model as a config.json; dropout as the simulated step ran it."""
    return {**row["config"], "model_type": row["model_type"], "architectures": row["architectures"]}


def errors(row: dict[str, Any], found: Estimate) -> dict[str, float]:
    """Relative error of the peak and of each phase that the row has."""
    if found.allocated_bytes is None:
        return {}
    by_name = {phase.name: phase.allocated_bytes for phase in found.phases}
    figures = row["result"]
    result = {"peak": max(by_name["forward"], by_name["backward"], by_name["optimizer_step"]) / figures["peak"] - 1}
    for short, name in _PHASES:
        if figures.get(short):
            result[name] = by_name[name] / figures[short] - 1
    return result


def table(path: str, simulated: bool = True) -> list[tuple[str, dict[str, float]]]:
    """Every row's errors. `simulated`: the closed form as the record was taken, without what only a GPU does."""
    with open(path, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [(row["id"], errors(row, estimate_uncached(run_of(row), simulated))) for row in rows]
