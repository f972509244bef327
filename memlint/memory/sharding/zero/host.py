"""Host memory that ZeRO offload takes, bytes for one rank."""

from __future__ import annotations

from memlint.memory.sharding.zero.layout import ZeroLayout
from memlint.run import Run


def partition_host_bytes(run: Run, layout: ZeroLayout, shares: list[int], states: int, owned: int) -> int:
    """Stages 1 and 2: fp32 master, its gradient, states, a half copy on its way back to the GPU, the largest
    gradient, and in stage 2 the accumulated half gradients, which stage 1 leaves on the GPU (deepspeed 0.19.8
    stage_1_and_2.py:558-575, :652-656, :937, :1824). All but the states are pinned where pinning is on."""
    steps = run.batch.gradient_accumulation_steps
    pinned = run.offload.optimizer_pinned
    accumulates = isinstance(steps, int) and steps > 1 and run.parallelism.zero.stage == 2
    accumulated = layout.element * owned if accumulates else 0
    shared = sum(
        2 * host_buffer_bytes(layout.master * share, pinned) + host_buffer_bytes(layout.element * share, pinned)
        for share in shares
    )
    return shared + states + host_buffer_bytes(layout.element * layout.largest, pinned) + accumulated


def host_buffer_bytes(size: int, pinned: bool) -> int:
    """Bytes that a buffer of `size` bytes takes: PyTorch rounds pinned blocks up to a power of two (torch 2.13
    ATen/core/CachingHostAllocator.h:300-305)."""
    return 1 << (size - 1).bit_length() if pinned and size else size


def swap_buffer_bytes(run: Run, master: int, subgroups: list[int]) -> int:
    """The buffers between NVMe and the CPU optimizer, each as large as the largest sub-group (deepspeed 0.19.8
    runtime/swap_tensor/utils.py:192). Weights, states and gradients are in files."""
    return run.offload.optimizer_buffer_count * master * max(subgroups, default=0)


def nvme_parameter_bytes(run: Run, layout: ZeroLayout, shards: int) -> int:
    """Host bytes of weights on NVMe: trainable ones up to `max_in_cpu` elements stay in pinned memory (deepspeed 0.19.8
    stage3.py:897), and all others pass through buffers (runtime/swap_tensor/partitioned_param_swapper.py:115)."""
    offload = run.offload
    stays = min(offload.parameters_max_in_cpu, -(-layout.trainable // shards))
    buffers = offload.parameters_buffer_count * offload.parameters_buffer_size
    return host_buffer_bytes(layout.element * stays, True) + layout.element * buffers
