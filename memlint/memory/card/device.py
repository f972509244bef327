"""From the tensors' figure to what the card shows, as an interval.

allocated (tensors) -> reserved (the allocator's segments) -> device (context and communication on top).
Nothing here is physics: every constant stands in device.json with its source, and settings may override
it. The central figures say what a run settles at where the card has room. Near a full card the allocator
gives cached blocks back and tries again (c10/cuda/CUDACachingAllocator.cpp, malloc: release_cached_blocks,
v2.13.0), so slack alone never makes a run die: only tensors and context do. A run whose slack does not fit shows
anything between them and the whole card.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import memlint.memory.card.allocator_overhead as slack
from memlint._record import NamedTuple
from memlint.hardware.model import Gpu
from memlint.run import Run

GIB = 1 << 30
MIB = 1 << 20


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


def to_card(
    allocated: int, run: Run, details: Mapping[str, int] = {}, values: Mapping[str, Any] | None = None
) -> tuple[int, int, int, int]:
    """(reserved, device, low, high) in bytes for `allocated` bytes of tensors at the peak; see `card`."""
    return card(allocated, run, details, values)[:4]


def card(allocated: int, run: Run, details: Mapping[str, int] = {}, values: Mapping[str, Any] | None = None) -> Card:
    """What the GPU shows for `allocated` bytes of tensors at the peak.

    Read from `details`, each worked out from `run` where absent: `resident_bytes` (weights and optimizer
    states), `forward_bytes` and `backward_bytes` (the highest moments up to the loss and of everything else but
    the optimizer's step), `gradients_bytes`, `freed_gradients_bytes` (those that are gone while the loss runs),
    `optimizer_step_temporary_bytes`, `layer_bytes` (a decoder layer's weights in half precision),
    `whole_logits_bytes` (one float32 tensor of all logits, 0 if never built), `attention_scores_bytes` (one
    layer's float32 scores, 0 unless eager), `allocated_low_bytes` and `allocated_high_bytes`, `doubtful_logits_bytes`
    (as `whole_logits_bytes`, of logits that the highest figure alone builds).
    """
    table = values or constants()
    return settled(allocated, run, details, table).on(run, table)


class SteadyState(NamedTuple):
    """What a run settles at where the card has room, whichever card that is, bytes. The tensors take `least` to
    `allocated + doubt`; `low`, `high` and `headroom` are shares of what the card shows."""

    allocated: int
    least: int
    doubt: int
    reserved: int
    low: float
    high: float
    headroom: float
    kind: str

    def on(self, run: Run, table: Mapping[str, Any]) -> Card:
        """What the card of `run` shows."""
        beside, usable = _beside(run, table), usable_bytes(run)
        device = self.reserved + beside
        certain = int(self.least * (1 - table["prediction_margin"]["value"])) + beside
        low = max(certain, int(device * (1 + self.low)) - max(0, self.allocated - self.least))
        high = max(device, int(device * (1 + self.high))) + self.doubt
        if usable and high > usable:
            full = max(int(usable * table["full_card"]["value"]), certain)
            low = certain if device > usable else min(low, full)
            if self.fits(device, usable):
                high = usable
            device = min(device, max(usable, self.allocated + beside))
        low = min(low, device)
        return Card(max(self.allocated, device - beside), device, low, max(high, device), certain, self.kind)

    def fits(self, device: int, usable: int) -> bool:
        """Whether the upper end fits; or it alone does not and the central figure fits with some headroom, as cached
        blocks go back before a run dies."""
        return int(device * (1 + max(0.0, min(self.high, self.headroom)))) + self.doubt <= usable


def settled(
    allocated: int, run: Run, details: Mapping[str, int], table: Mapping[str, Any] | None = None
) -> SteadyState:
    """`allocated` bytes of tensors with what the allocator keeps beside them; `details` as for `card`."""
    table = table or constants()
    kind = slack.slack_kind(run, details)
    margins = table["slack"][kind]
    terms = table["terms"][margins["terms"]]
    reserved = slack.reserved_bytes(allocated, run, details, terms)
    if run.stack.expandable_segments:
        margins = table["expandable_segments"]
        reserved = allocated + int((reserved - allocated) * margins["slack_share"])
    least = details.get("allocated_low_bytes", allocated)
    doubt = max(0, details.get("allocated_high_bytes", allocated) - allocated)
    doubt += int(terms.get("kernel_logits", 0.0) * details.get("doubtful_logits_bytes", 0))
    return SteadyState(
        allocated, least, doubt, reserved, margins["low"], margins["high"], terms.get("headroom", 1.0), kind
    )


def fitting(found: SteadyState, run: Run, gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Those of `gpus` that have what the run computes with and on which its verdict would be `fits`."""
    table = constants()
    on_every = found.reserved + nccl_bytes(run, table)
    return tuple(
        gpu.name
        for gpu in gpus
        if found.allocated <= gpu.usable_bytes
        and found.fits(on_every + _context_of(gpu, run, table) + _generator_of(gpu, run), gpu.usable_bytes)
        and suits(gpu, run)
    )


_AMPERE = (8, 0)  # transformers 5.23 training_args.py: "--tf32 requires Ampere or a newer GPU arch"
_FLASH = {"flash_attention_2": 2, "flash_attention_3": 3}


def suits(gpu: Gpu, run: Run) -> bool:
    """Whether a card has what the run computes with: bfloat16 (slow where emulated), TF32, FlashAttention."""
    precision = run.precision
    if (precision.compute == "bfloat16" and not gpu.bf16) or (precision.tf32 and gpu.capability < _AMPERE):
        return False
    return gpu.flash_attention >= _FLASH.get(str(run.attention.implementation), 0)


def _beside(run: Run, table: Mapping[str, Any]) -> int:
    """What stands on the card beside PyTorch's allocator."""
    return context_bytes(run, table) + nccl_bytes(run, table) + generator_bytes(run)


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
    return _context_of(run.hardware.gpu, run, table or constants())


def _context_of(gpu: Gpu | None, run: Run, table: Mapping[str, Any]) -> int:
    figures = table["context"]
    if () < run.stack.torch < (1, 13):
        return int(figures["eager_mib"] * MIB)
    known = gpu.context_bytes if gpu else 0
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
    return _generator_of(run.hardware.gpu, run)


def _generator_of(gpu: Gpu | None, run: Run) -> int:
    return int(run.method.generator_share * gpu.nominal_bytes) if gpu else 0
