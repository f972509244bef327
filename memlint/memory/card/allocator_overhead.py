"""The memory that PyTorch's caching allocator reserves beyond the tensors of a training step.

The allocator (c10/cuda/CUDACachingAllocator.cpp) splits and merges cached blocks, but only within a segment and only
for the stream that allocated them. So a step reserves its peak, plus blocks that were cached at other times and fit no
tensor of the peak. For full fine-tuning on one GPU the allocator is replayed (cached_blocks.py). For other runs, how
much each part of the step leaves was fitted to measurements (device.json, `terms`, with sources):

- the loss: logits, their copies and gradients differ in size and come and go at once;
- forward and backward: a share of what a batch allocates and frees;
- gradients that were set to None, and temporaries of a foreach optimizer: one block for each parameter, which fits no
  activation, so that both stay reserved during the next forward (not under ZeRO-3: `doubtful_bytes`);
- a share of the gradients once more: they were split from blocks that the previous batch left, and the next one needs
  more;
- gathered parameters (FSDP, ZeRO-3), which are allocated on a stream of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memlint.memory.loss.shape import FUSED_LOSSES, copies_shifted_logits
from memlint.run import Run

GIB = 1 << 30
_DEFAULT_HEADS = 32


def overhead_class(run: Run, details: Mapping[str, int] = {}) -> str:
    """The class of measured runs that this run belongs to: a key of "slack" in device.json.

    ZeRO 1 and 2 allocate their flat buffers once, as one GPU does its tensors: 13B on 8 GPUs reserved 1.09 times
    what it allocated, and 1.23 times under ZeRO-3, which gathers and frees like FSDP (github.com/microsoft/DeepSpeed
    issue 3734: 52.4 and 57.1 GB, 56.1 and 69.2 GB); a small model 1.15 to 1.2 times with its states in host memory
    (issue 522: 5.55 and 6.39 to 6.68 GB).
    """
    sharded = _gathers(run) and run.parallelism.world_size != 1
    if run.method.kind == "full" and run.purpose == "train":
        has_flat_buffers = run.parallelism.engine == "deepspeed" and run.parallelism.world_size != 1
        return "sharded_full" if sharded else "flat" if has_flat_buffers else "full"
    if _logits(run, details) == 0:
        return "sharded_fused" if sharded else "fused"
    if copies_shifted_logits(run):
        return "sharded_upcast" if sharded else "upcast"
    if sharded:
        return "sharded_plain"
    return "eager" if _scores(run, details) else "plain"


def _gathers(run: Run) -> bool:
    """Whether parameters are gathered and freed throughout the step."""
    if run.parallelism.engine == "deepspeed":
        return run.parallelism.zero.stage not in (0, 1, 2)
    return run.parallelism.engine in ("fsdp", "megatron")


def reserved_bytes(
    allocated: int, run: Run, details: Mapping[str, int], terms: Mapping[str, Any], keeps_copies: bool = False
) -> int:
    """Bytes that the allocator reserves on a card with enough room. `terms`: those of the run's class in
    device.json. `keeps_copies`: whether a step's copies under ZeRO-3 stay beside everything else."""

    if "step_reserve_bytes" in details:
        return max(allocated, details["step_reserve_bytes"])

    def term(name: str) -> float:
        return float(terms.get(name, 0.0))

    resident = details.get("resident_bytes", allocated // 2)
    forward = details.get("forward_bytes", allocated)
    backward = details.get("backward_bytes", allocated)
    quantized = run.model.quantization.method != "none"
    share = term("activations") + (term("quantized_activations") if quantized else 0.0)
    logits = term("kernel_logits" if run.loss.kind == "fused_ce" else "logits") * _logits(run, details)
    freed = details.get("freed_gradients_bytes", 0)
    at_loss = forward + share * max(0, forward - resident) + logits + freed
    at_backward = backward + share * max(0, backward - resident)
    cached = term("scores") * _scores(run, details) + term("gradients") * details.get("gradients_bytes", 0)
    cached += _step_temporaries(details) if keeps_copies or not _steps_in_groups(run) else 0
    cached += term("allocated") * allocated + fixed_bytes(allocated, run, details, terms)
    limit = allocated + terms["most_gib"] * GIB if "most_gib" in terms else float("inf")
    return max(allocated, int(min(max(at_loss, at_backward) + cached, limit)))


def doubtful_bytes(allocated: int, run: Run, details: Mapping[str, int], terms: Mapping[str, Any]) -> int:
    """Bytes that a step under ZeRO-3 may leave reserved beyond the central figure.

    It works on flat fp32 copies of sub-groups of up to 1e9 elements (deepspeed 0.19 runtime/zero/stage3.py,
    _prepare_fp32_grad_for_sub_group). The blocks are large, and the next forward splits them for its activations, as
    far as it needs them: eight of ms-swift's examples take 1.05 to 1.25 times their tensors
    (benchmarks/accuracy/published_figures.py), 1.3 times with the copies beside everything else. Segments that grow
    serve tensors of any size, and a measured fragmentation has what is left reserved in it.
    """
    is_measured = run.hardware.fragmentation is not None
    if not _steps_in_groups(run) or run.stack.expandable_segments or is_measured:
        return 0
    reserved = reserved_bytes(allocated, run, details, terms)
    return reserved_bytes(allocated, run, details, terms, keeps_copies=True) - reserved


def _step_temporaries(details: Mapping[str, int]) -> int:
    return details.get("optimizer_step_temporary_bytes", 0) if "forward_bytes" in details else 0


def _steps_in_groups(run: Run) -> bool:
    """Whether the optimizer steps on flat copies of many parameters at once: DeepSpeed's ZeRO-3."""
    return run.parallelism.engine == "deepspeed" and _gathers(run)


def fixed_bytes(allocated: int, run: Run, details: Mapping[str, int], terms: Mapping[str, Any]) -> float:
    """Bytes that do not depend on the batch. A rank gathers what other ranks own: half of the model on two ranks, 3/4
    on four."""
    layer = details.get("layer_bytes", 0)
    fixed: float = terms.get("fixed_gib", 0.0) * GIB + terms.get("layer", 0.0) * layer
    if run.model.quantization.method != "none":
        fixed += terms.get("quantized_gib", 0.0) * GIB
    if layer and "most_layers" in terms:
        fixed = min(fixed, terms["most_layers"] * layer)
    ranks = run.parallelism.world_size
    if terms.get("gathers") and isinstance(ranks, int) and ranks > 1:
        fixed *= 2 * (1 - 1 / ranks)
    return min(fixed, float(terms.get("fixed_share", 0.0)) * allocated)


def _logits(run: Run, details: Mapping[str, int]) -> int:
    if "whole_logits_bytes" in details:
        return details["whole_logits_bytes"]
    if run.loss.kind in FUSED_LOSSES:
        return 0
    architecture = run.model.architecture
    vocabulary: int = architecture.vocab_size if architecture else 0
    return 4 * _tokens(run) * vocabulary


def _scores(run: Run, details: Mapping[str, int]) -> int:
    if run.attention.implementation != "eager":
        return 0
    if "attention_scores_bytes" in details:
        return details["attention_scores_bytes"]
    architecture = run.model.architecture
    heads = max((layer.attention.heads for layer in architecture.layer_types), default=0) if architecture else 0
    return 4 * _tokens(run) * _length(run) * (heads or _DEFAULT_HEADS)


def _tokens(run: Run) -> int:
    batch = run.batch.micro_batch_size
    return (batch if isinstance(batch, int) else 1) * _length(run)


def _length(run: Run) -> int:
    return run.sequence.length if isinstance(run.sequence.length, int) else 0
