"""From the tensors' figure to what the card shows, as an interval.

allocated (tensors) -> reserved (the allocator's segments) -> device (context and communication on top).
Nothing here is physics: every constant stands in device.json with its source, and settings may override
it. The central figures say what a run settles at where the card has room. Near a full card the allocator
gives cached blocks back and tries again (c10/cuda/CUDACachingAllocator.cpp, malloc: release_cached_blocks,
v2.13.0), so slack alone never makes a run die: only tensors and context do.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from memlint._record import NamedTuple
from memlint.memory.loss import copies_shifted
from memlint.run import Run

GIB = 1 << 30
MIB = 1 << 20
_DEFAULT_HEADS = 32


class Card(NamedTuple):
    """Bytes on one GPU. `certain` is what the run needs whatever the allocator does."""

    reserved: int
    device: int
    low: int
    high: int
    certain: int
    kind: str  # which entry of "slack" in device.json spoke


@lru_cache(maxsize=1)
def constants() -> Mapping[str, Any]:
    """device.json as shipped."""
    with open(os.path.join(os.path.dirname(__file__), "device.json"), "rb") as file:
        loaded: Mapping[str, Any] = json.load(file)
    return loaded


def overridden(changes: Mapping[str, Any]) -> Mapping[str, Any]:
    """The constants with `changes` laid over them: {"nccl": {"two_ranks_mib": 300}, "slack": {"plain": {...}}}."""
    return _merged(constants(), changes)


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Mapping[str, Any]:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        nested = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(old, value) if nested else value  # type: ignore[arg-type]
    return merged


def to_card(
    allocated: int, run: Run, details: Mapping[str, int] = {}, values: Mapping[str, Any] | None = None
) -> tuple[int, int, int, int]:
    """(reserved, device, low, high) in bytes for `allocated` bytes of tensors at the peak; see `card`."""
    return card(allocated, run, details, values)[:4]


def card(allocated: int, run: Run, details: Mapping[str, int] = {}, values: Mapping[str, Any] | None = None) -> Card:
    """What the GPU shows for `allocated` bytes of tensors at the peak.

    Read from `details`, each worked out from `run` where absent: `resident_bytes` (weights and optimizer
    states), `whole_logits_bytes` (one float32 tensor of all logits, 0 if never built), `attention_scores_bytes`
    (one layer's float32 scores, 0 unless eager), `allocated_low_bytes` and `allocated_high_bytes`.
    """
    table = values or constants()
    kind = slack_kind(run, details)
    entry = table["slack"][kind]
    beside = context_bytes(run, table) + nccl_bytes(run, table) + generator_bytes(run)
    slack, low_margin, high_margin = _slack(allocated, run, details, entry, table)
    device = allocated + beside + slack
    certain = int(details.get("allocated_low_bytes", allocated) * (1 - table["prediction_margin"]["value"])) + beside
    above = max(0, details.get("allocated_high_bytes", allocated) - allocated)
    below = max(0, allocated - details.get("allocated_low_bytes", allocated))
    low = max(certain, int(device * (1 + low_margin)) - below)
    high = max(device, int(device * (1 + high_margin))) + above
    usable = usable_bytes(run)
    if usable:
        device = min(device, max(usable, allocated + beside))
        low = min(low, max(int(usable * table["full_card"]["value"]), certain))
    low = min(low, device)
    return Card(max(allocated, device - beside), device, low, max(high, device), certain, kind)


def verdict(low: int, high: int, usable: int) -> str:
    """fits, tight or out_of_memory, from the interval of `to_card`; unknown without a card."""
    if usable <= 0:
        return "unknown"
    if high <= usable:
        return "fits"
    return "out_of_memory" if low > usable else "tight"


def usable_bytes(run: Run) -> int:
    """What the run may use of its card; 0 when no card is known."""
    if run.hardware.memory_budget_bytes:
        return run.hardware.memory_budget_bytes
    return run.hardware.gpu.usable_bytes if run.hardware.gpu else 0


def context_bytes(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """The CUDA context with its kernels, all of them before PyTorch loads kernels when they are first used (1.13)."""
    figures = (table or constants())["context"]
    if () < run.stack.torch < (1, 13):
        return int(figures["eager_mib"] * MIB)
    known = run.hardware.gpu.context_bytes if run.hardware.gpu else 0
    return int(min(known or figures["default_mib"] * MIB, figures["most_mib"] * MIB))


def nccl_bytes(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """Communication buffers; none on one GPU."""
    world = run.parallelism.world_size
    if run.parallelism.engine in ("single", "device_map") or world == 1:
        return 0
    figures = (table or constants())["nccl"]
    return int(figures["two_ranks_mib" if world == 2 else "more_ranks_mib"] * MIB)


def generator_bytes(run: Run) -> int:
    """What an inference engine on the same card keeps for itself, a share of the card's whole memory."""
    gpu = run.hardware.gpu
    return int(run.method.generator_share * gpu.nominal_bytes) if gpu else 0


def slack_kind(run: Run, details: Mapping[str, int] = {}) -> str:
    """Which measured class of runs this one resembles.

    ZeRO 1 and 2 keep flat buffers that are made once, as one GPU keeps its tensors: 13B on 8 GPUs reserved 1.09 times
    what it allocated, and 1.23 times under ZeRO-3, which gathers and frees like FSDP (github.com/microsoft/DeepSpeed
    issue 3734: 52.4 and 57.1 GB, 56.1 and 69.2 GB); a small model 1.15 to 1.2 times with its states in host memory
    (issue 522: 5.55 and 6.39 to 6.68 GB).
    """
    sharded = _gathers(run) and run.parallelism.world_size != 1
    if run.method.kind in ("full", "freeze") and run.purpose == "train":
        return "sharded_full" if sharded else "full"
    if _logits(run, details) == 0:
        return "sharded_fused" if sharded else "fused"
    if copies_shifted(run):
        return "sharded_upcast" if sharded else "upcast"
    if sharded:
        return "sharded_plain"
    return "eager" if _scores(run, details) else "plain"


def _gathers(run: Run) -> bool:
    """Whether parameters are gathered and freed all through the step."""
    if run.parallelism.engine == "deepspeed":
        return run.parallelism.zero.stage not in (0, 1, 2)
    return run.parallelism.engine in ("fsdp", "megatron")


def _slack(
    allocated: int, run: Run, details: Mapping[str, int], entry: Mapping[str, Any], table: Mapping[str, Any]
) -> tuple[int, float, float]:
    """Reserved minus allocated in bytes, and the margins of the device's total."""
    activations = max(0, allocated - details.get("resident_bytes", allocated // 2))
    logits = _logits(run, details)
    quantized = logits if run.model.quantization.method != "none" else 0
    fixed = min(entry["fixed_gib"] * GIB, table["fixed_share"]["value"] * allocated)
    slack = (
        entry["activations"] * activations
        + entry["logits"] * logits
        + entry.get("quantized_logits", 0.0) * quantized
        + entry["scores"] * _scores(run, details)
        + entry["allocated"] * allocated
        + fixed
    )
    slack = min(slack, entry.get("most_gib", 1 << 20) * GIB)
    if not run.stack.expandable_segments:
        return int(slack), entry["low"], entry["high"]
    expandable = table["expandable_segments"]
    return int(slack * expandable["slack_share"]), expandable["low"], expandable["high"]


def _logits(run: Run, details: Mapping[str, int]) -> int:
    if "whole_logits_bytes" in details:
        return details["whole_logits_bytes"]
    if run.loss.kind in ("liger", "chunked", "cut", "unsloth"):
        return 0
    architecture = run.model.architecture
    known = run.model.vocab_size
    vocabulary: int = known if isinstance(known, int) else architecture.vocab_size if architecture else 0
    return 4 * _tokens(run) * vocabulary


def _scores(run: Run, details: Mapping[str, int]) -> int:
    if run.attention.implementation != "eager":
        return 0
    if "attention_scores_bytes" in details:
        return details["attention_scores_bytes"]
    architecture = run.model.architecture
    heads = max((layer.attention.heads for layer in architecture.kinds), default=0) if architecture else 0
    return 4 * _tokens(run) * _length(run) * (heads or _DEFAULT_HEADS)


def _tokens(run: Run) -> int:
    batch = run.batch.micro_batch_size
    return (batch if isinstance(batch, int) else 1) * _length(run)


def _length(run: Run) -> int:
    return run.sequence.length if isinstance(run.sequence.length, int) else 0
