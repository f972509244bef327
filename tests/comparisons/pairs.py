"""Pairs of runs that differ in one knob: the predicted difference beside the real one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import tests.comparisons.sharding as sharding
import tests.comparisons.sharding_predict as sharding_predict
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
    replace,
)
from tests.comparisons.measured import ROWS, closed_form, rows
from tests.comparisons.stacks import LeftOut, run_of

DATA = Path(__file__).resolve().parents[2] / "benchmarks" / "data" / "pairs.jsonl"
LEAST = 0.02  # of the larger peak: below, a difference is not one
_KNOBS = ("micro_batch_size", "fused_loss", "attention", "gradient_checkpointing", "optimizer", "lora_r", "method")
_SAME = (*_KNOBS, "model_hf_id", "quantization", "weights_dtype", "compute_dtype", "seq_len", "n_gpus", "fsdp", "gpu")


class Pair(NamedTuple):
    """Bytes or GiB: real and predicted peaks of two runs."""

    knob: str
    name: str
    real: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def error(self) -> float:
        """How far the predicted difference is from the real one, as a share of the real one."""
        real, predicted = self.real[1] - self.real[0], self.predicted[1] - self.predicted[0]
        return predicted / real - 1

    @property
    def counts(self) -> bool:
        return abs(self.real[1] - self.real[0]) >= LEAST * max(self.real)


def measured() -> Iterator[Pair]:
    """Published rows of one table that differ in exactly one knob."""
    known: dict[tuple[Any, ...], list[tuple[dict[str, Any], float]]] = {}
    for row in rows(ROWS):
        if row["metric"] != "max_allocated":
            continue
        try:
            predicted = closed_form(run_of(row), row).predicted
        except LeftOut:
            continue
        for knob in _KNOBS:
            version = "4.48" if "transformers 4.48" in row["notes"] else ""
            same = tuple(str(row.get(name)) for name in _SAME if name != knob)
            known.setdefault((knob, row["source"].split(" ")[-2], version, *same), []).append((row, predicted))  # type: ignore[arg-type]
    for (knob, *_), group in known.items():
        for (first, one), (second, other) in combinations(group, 2):
            if str(first.get(knob)) != str(second.get(knob)):
                real = (first["measured_gib"], second["measured_gib"])
                yield Pair(knob, f"{first['id']} / {second['id']}", real, (one, other))


def sharded() -> Iterator[Pair]:
    """The sharding grid's settings against its plain ones, peak over forward, backward and step."""
    found = {row["setting"]["name"]: row for row in sharding.rows()}
    for first, second, knob in _SHARDED:
        pair = [found[first], found[second]]
        real = [max(sharding.measured(row, phase) for phase in sharding.PHASES[1:]) for row in pair]
        predicted = [_peak(sharding_predict.estimated(row["setting"])) for row in pair]
        yield Pair(knob, f"{first} / {second}", (real[0], real[1]), (predicted[0], predicted[1]))


_SHARDED = (
    ("zero0-2", "zero1-2-small", "ZeRO stage"),
    ("zero0-2", "zero2-2-small", "ZeRO stage"),
    ("zero1-2-small", "zero1-4-small", "GPUs"),
    ("zero2-2-small", "zero2-4-small", "GPUs"),
    ("zero2-2-small", "zero3-2-tight-subgroups-single", "ZeRO stage"),
    ("zero2-2-small", "zero2-2-default-bucket", "ZeRO bucket"),
    ("zero3-2-tight", "zero3-4", "GPUs"),
    ("ddp-2", "zero0-2", "engine"),
    ("ddp-2", "fsdp1-2", "engine"),
    ("ddp-2", "fsdp2-2", "engine"),
    ("fsdp1-2", "fsdp1-4", "GPUs"),
    ("fsdp2-2", "fsdp2-4", "GPUs"),
    ("fsdp2-2", "fsdp2-2-lora", "method"),
    ("zero2-2-small", "zero2-2-lora", "method"),
)


def _peak(found: Any) -> int:
    named = ("forward", "backward", "optimizer_step")
    return max(phase.allocated_bytes for phase in found.phases if phase.name in named)


_CONFIG = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
_CHANGES: Mapping[str, dict[str, object]] = {
    "checkpointing": {"checkpointing.mode": "none"},
    "attention": {"attention.implementation": "eager"},
    "fused loss": {"loss.kind": "liger"},
    "batch": {"batch.micro_batch_size": 4},
    "length": {"sequence.length": 2048},
    "rank": {"method.rank": 256},
    "optimizer": {"optimizer.name": "sgd"},
    "optimizer step": {"optimizer.name": "adamw_torch_fused"},
    "precision": {"precision": Precision("bfloat16", False, "bfloat16", False, outputs_to_fp32=False)},
    "method": {"method": Method("lora", rank=8, alpha=16, targets=("all-linear",), adapter_dtype="float32")},
}


def cases() -> Iterator[tuple[str, str, dict[str, Any], Run, Run]]:
    """(knob, name, config, run, changed run) of the simulated pairs."""
    for family in ("llama", "qwen2", "qwen3"):
        config = {"model_type": family, **_CONFIG}
        for kind in ("full", "lora"):
            run = _base(config, kind)
            for knob, changes in _CHANGES.items():
                if knob != ("rank" if kind == "full" else "method"):
                    yield knob, f"{family} {kind}", config, run, replace(run, changes)


def _base(config: dict[str, Any], kind: str) -> Run:
    return Run(
        "pairs",
        kind,
        model=Model(architecture=from_config(config), weights_dtype="bfloat16"),
        method=Method(kind, rank=8 if kind == "lora" else 0, alpha=16, targets=("all-linear",)),
        precision=Precision("bfloat16", True, "float32", False, outputs_to_fp32=True),
        batch=Batch(2, 1),
        sequence=Sequence(1024),
        attention=Attention("sdpa"),
        checkpointing=Checkpointing("full"),
        loss=Loss("plain"),
        optimizer=Optimizer("adamw_torch"),
        parallelism=Parallelism(1, 1, 1),
        evaluation=Evaluation(enabled=False),
    )


def simulated() -> Iterator[Pair]:
    """The pairs of data/pairs.jsonl: simulated bytes as kept, estimates anew."""
    kept = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    for (knob, name, _, first, second), row in zip(cases(), kept, strict=True):
        predicted = [_peak(estimate(run)) for run in (first, second)]
        yield Pair(knob, name, (row["peaks"][0], row["peaks"][1]), (predicted[0], predicted[1]))


@cache
def every() -> list[Pair]:
    return [pair for source in (measured, sharded, simulated) for pair in source() if pair.counts]


def lines() -> list[str]:
    """A table: pairs and the share within 10 %, by knob."""
    groups: dict[str, list[float]] = {}
    for pair in every():
        groups.setdefault(pair.knob, []).append(abs(pair.error))
        groups.setdefault("all", []).append(abs(pair.error))
    groups["all"] = groups.pop("all", [])
    found = ["| knob | pairs | within 10 % | median | worst |", "|---|---|---|---|---|"]
    for knob, sizes in groups.items():
        inside = sum(size <= 0.10 for size in sizes) / len(sizes)
        middle = sorted(sizes)[len(sizes) // 2]
        found.append(f"| {knob} | {len(sizes)} | {inside:.0%} | {middle:.1%} | {max(sizes):.1%} |")
    return found
