"""From the bytes of tensors to what a card shows (nvidia-smi), as an interval.

allocated (tensors) -> reserved (the allocator's segments) -> device (plus CUDA context and communication buffers).

The constants are measured: each is in device.json with its source, and settings may override it. The central figures
say what a run reaches where the card has room. Near a full card the allocator frees cached blocks and tries again
(c10/cuda/CUDACachingAllocator.cpp, malloc: release_cached_blocks, v2.13.0). So the allocator's overhead alone never
ends a run: only tensors and context do. Where the overhead does not fit, the card shows anything between those and its
whole memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import memlint.memory.card.allocator_overhead as overhead
import memlint.memory.state.parameters as parameters
from memlint._record import NamedTuple
from memlint.hardware.model import Gpu
from memlint.run import Run

GIB = 1 << 30
MIB = 1 << 20


class Card(NamedTuple):
    """Bytes on one GPU. `low` to `high` is the interval of `device`. `minimum`: of tensors and context alone.
    `unclamped_high`: the upper end on a card with room for it."""

    reserved: int
    device: int
    low: int
    high: int
    minimum: int
    kind: str  # the entry of "slack" in device.json that was used
    unclamped_high: int = 0


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
    """The bytes that the run's GPU shows for `allocated` bytes of tensors at the peak.

    `details` may have these values in bytes; absent ones are estimated from `run`: `resident_bytes` (weights and
    optimizer states), `forward_bytes` and `backward_bytes` (the peaks up to the loss, and of all other phases except
    loading, saving and the optimizer's step), `gradients_bytes`, `freed_gradients_bytes` (freed while the loss runs),
    `optimizer_step_temporary_bytes`, `layer_bytes` (a decoder layer's weights in half precision),
    `whole_logits_bytes` (one float32 tensor of all logits, 0 if never built), `attention_scores_bytes` (one
    layer's float32 scores, 0 unless eager), `allocated_low_bytes` and `allocated_high_bytes`, `doubtful_logits_bytes`
    (as `whole_logits_bytes`, of logits that the highest figure alone builds).
    """
    table = values or constants()
    return steady_state(allocated, run, details, table).on_card(run, table)


class SteadyState(NamedTuple):
    """The memory that a run reaches on a card with enough room, in bytes, without the card's context.

    Tensors take `least_allocated` to `allocated + uncertain`. The interval reaches from `below` less to `above` more
    than the central figure; at least by the shares `least_below` and `least_above` of it. `headroom` is a share of the
    central figure.
    """

    allocated: int
    least_allocated: int
    uncertain: int
    reserved: int
    below: int
    above: int
    least_below: float
    least_above: float
    headroom: float
    kind: str

    def on_card(self, run: Run, table: Mapping[str, Any]) -> Card:
        """The bytes that the card of `run` shows, including its context and the run's communication buffers."""
        outside, usable = outside_allocator(run, table), usable_bytes(run)
        device = self.reserved + outside
        minimum = int(self.least_allocated * (1 - table["prediction_margin"]["value"])) + outside
        below = max(self.below, int(self.least_below * device))
        low = max(minimum, device - below - max(0, self.allocated - self.least_allocated))
        high = unclamped_high = device + self._above(device) + self.uncertain
        if usable and high > usable:
            full_card = max(int(usable * table["full_card"]["value"]), minimum)
            near = device > usable * (1 - table["full_card"]["near"])
            low = minimum if near else min(low, full_card)
            if self.fits(device, usable):
                high = usable
            device = min(device, max(usable, self.allocated + outside))
        low = min(low, device)
        reserved = max(self.allocated, device - outside)
        return Card(reserved, device, low, max(high, device), minimum, self.kind, unclamped_high)

    def fits(self, device: int, usable: int) -> bool:
        """Whether the run fits: the high end does, or the central figure does with some headroom, since cached blocks
        are freed before an out-of-memory error."""
        return self.needed(device) <= usable

    def needed(self, device: int) -> int:
        """Usable bytes of the smallest card on which the run fits."""
        return device + min(self._above(device), int(self.headroom * device)) + self.uncertain

    def _above(self, device: int) -> int:
        return max(self.above, int(self.least_above * device))


def steady_state(
    allocated: int, run: Run, details: Mapping[str, int], table: Mapping[str, Any] | None = None
) -> SteadyState:
    """`allocated` bytes of tensors with the allocator's overhead. `details` as for `card`."""
    table = table or constants()
    kind = overhead.overhead_class(run, details)
    margins = {**table["margins"], **table["slack"][kind]}
    terms = table["terms"][margins["terms"]]
    reserved = overhead.reserved_bytes(allocated, run, details, terms)
    if run.stack.expandable_segments:
        margins = table["expandable_segments"]
        reserved = allocated + int((reserved - allocated) * margins["slack_share"])
    if run.hardware.fragmentation is not None:
        reserved = allocated + run.hardware.fragmentation.of(allocated)
    least_allocated = details.get("allocated_low_bytes", allocated)
    uncertain = max(0, details.get("allocated_high_bytes", allocated) - allocated)
    uncertain += int(terms.get("kernel_logits", 0.0) * details.get("doubtful_logits_bytes", 0))
    fixed = overhead.fixed_bytes(allocated, run, details, terms)
    lowest, highest = sorted((reserved, details.get("other_step_reserve_bytes", reserved)))
    return SteadyState(
        allocated,
        least_allocated,
        uncertain,
        reserved,
        reserved - lowest + int(-margins["low"] * doubted_bytes(allocated, lowest, fixed, table)),
        highest
        - reserved
        + int(margins["high"] * doubted_bytes(allocated, highest, fixed, table))
        + overhead.doubtful_bytes(allocated, run, details, terms),
        margins.get("least_below", table["doubt"]["least_below"]),
        margins.get("least_above", table["doubt"]["least_above"]),
        terms.get("headroom", 1.0),
        kind,
    )


def doubted_bytes(allocated: int, reserved: int, fixed: float, table: Mapping[str, Any]) -> float:
    """The bytes that the margins are multiples of: the allocator's overhead, which depends on the order of allocations
    and frees, and a share of the tensors. Of what is `fixed`, blocks of the same size in every step, only a share."""
    overhead_bytes = reserved - allocated
    certain = (1 - float(table["doubt"]["of_fixed"])) * min(fixed, overhead_bytes)
    return overhead_bytes - certain + float(table["doubt"]["of_tensors"]) * allocated


def cards_that_fit(steady_state: SteadyState, run: Run, gpus: Iterable[Gpu]) -> tuple[str, ...]:
    """Names of those `gpus` that support the run's dtypes and kernels and on which its verdict is `fits`."""
    table = constants()
    on_any_card = steady_state.reserved
    return tuple(
        gpu.name
        for gpu in gpus
        if steady_state.allocated <= gpu.usable_bytes
        and supports(gpu, run)
        and steady_state.fits(on_any_card + _outside_of(gpu, run, table), gpu.usable_bytes)
    )


def _outside_of(gpu: Gpu, run: Run, table: Mapping[str, Any]) -> int:
    """Bytes outside of the allocator on such a card."""
    return _contexts_of(gpu, run, table) + sleeping_engine_bytes(run, table) + _generator_of(gpu, run)


_AMPERE = (8, 0)  # transformers 5.23 training_args.py: "--tf32 requires Ampere or a newer GPU arch"
_FLASH = {"flash_attention_2": 2, "flash_attention_3": 3}


def supports(gpu: Gpu, run: Run) -> bool:
    """Whether a card supports the dtypes and kernels of the run: bfloat16 (not emulated), TF32, FlashAttention."""
    precision = run.precision
    if (precision.compute == "bfloat16" and not gpu.bf16) or (precision.tf32 and gpu.capability < _AMPERE):
        return False
    return gpu.flash_attention >= _FLASH.get(str(run.attention.implementation), 0)


def outside_allocator(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """Bytes on the card outside of PyTorch's allocator."""
    table = table or constants()
    return _contexts_of(run.hardware.gpu, run, table) + sleeping_engine_bytes(run, table) + generator_bytes(run)


def _contexts_of(gpu: Gpu | None, run: Run, table: Mapping[str, Any]) -> int:
    """Bytes of CUDA contexts and communication buffers. Each separate process of an engine or model has a context,
    too."""
    contexts = 1 + run.rollout.own_process + run.rollout.model_processes
    return contexts * _context_of(gpu, run, table) + _nccl_of(gpu, run, table)


def sleeping_engine_bytes(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """Bytes of the communication buffers that an engine over several GPUs keeps while it sleeps. Awake it counts them
    in its share. A process of Llama 3.2 1B asleep showed 774 MiB on one GPU, which is its context, and 2440 on two
    (NVIDIA-NeMo/RL#223)."""
    rollout, ranks = run.rollout, run.rollout.tensor_parallel_size
    if rollout.generator != "vllm_colocate" or not rollout.sleep_level or not isinstance(ranks, int) or ranks < 2:
        return 0
    return _buffers(ranks, table or constants())


def verdict(low: int, high: int, usable: int) -> str:
    """fits, tight or out_of_memory, from the interval of `to_card`; unknown without a card."""
    if usable <= 0:
        return "unknown"
    if high <= usable:
        return "fits"
    return "out_of_memory" if low > usable else "tight"


def usable_bytes(run: Run) -> int:
    """Bytes that the run may use of its card; 0 when no card is known."""
    if run.hardware.memory_budget_bytes:
        return run.hardware.memory_budget_bytes
    return run.hardware.gpu.usable_bytes if run.hardware.gpu else 0


def context_bytes(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """Bytes of the CUDA context with its kernels. Before 1.13 PyTorch loaded all kernels at once."""
    return _context_of(run.hardware.gpu, run, table or constants())


def _context_of(gpu: Gpu | None, run: Run, table: Mapping[str, Any]) -> int:
    stated = run.hardware.context
    if stated is not None and (gpu or not stated.share):
        return stated.of(gpu.nominal_bytes if gpu else 0)
    figures = table["context"]
    if () < run.stack.torch < (1, 13):
        return int(figures["eager_mib"] * MIB)
    known = gpu.context_bytes if gpu else 0
    return int(min(known or figures["default_mib"] * MIB, figures["most_mib"] * MIB))


def nccl_bytes(run: Run, table: Mapping[str, Any] | None = None) -> int:
    """Bytes of communication buffers; 0 on one GPU."""
    return _nccl_of(run.hardware.gpu, run, table or constants())


def _nccl_of(gpu: Gpu | None, run: Run, table: Mapping[str, Any]) -> int:
    world = run.parallelism.world_size
    if run.parallelism.engine in ("single", "device_map") or world == 1:
        return 0
    stated = run.hardware.communication
    if stated is not None and (gpu or not stated.share):
        return stated.of(gpu.nominal_bytes if gpu else 0)
    return _buffers(2 if world == 2 else 3, table)


def _buffers(ranks: int, table: Mapping[str, Any]) -> int:
    return int(table["nccl"]["two_ranks_mib" if ranks == 2 else "more_ranks_mib"] * MIB)


def generator_bytes(run: Run) -> int:
    """Bytes that an inference engine on the same card holds while the model trains."""
    return _generator_of(run.hardware.gpu, run)


def _generator_of(gpu: Gpu | None, run: Run) -> int:
    return engine_share(run, gpu) if run.rollout.sleep_level == 0 else 0


def engine_share(run: Run, gpu: Gpu | None, beside: int = 0) -> int:
    """Bytes of such a card that an inference engine takes while it generates.

    vLLM's share is one of all that CUDA reports (vllm 0.33.0 utils/mem_utils.py:143). SGLang's is one of what is free
    before it loads its weights (sglang 0.5.23 model_executor/model_runner_components/kv_pool_runtime.py:75), where the
    trained models hold `beside` bytes already. Weights that the trained model has from the engine are not counted.
    """
    share = run.rollout.share
    if gpu is None or not isinstance(share, (int, float)) or not share:
        return 0
    shared = _shared_weights(run)
    beside = max(0, beside - shared)
    taken = beside + _contexts_of(gpu, run, constants()) if run.rollout.share_of_free else 0
    return max(0, int(share * max(0, gpu.usable_bytes - taken)) - shared)


def _shared_weights(run: Run) -> int:
    """Bytes of the frozen weights that the engine holds for the trained model."""
    if not run.rollout.shares_weights:
        return 0
    return parameters.frozen_bytes(parameters.units(run))
