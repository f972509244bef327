"""Stacks of experts: what loading them quantised takes, what FSDP leaves whole of what is quantised, and what autograd
keeps of those that ZeRO-3 gathered."""

from __future__ import annotations

from collections.abc import Iterator

import memlint.memory.families.lookup as families
from memlint.memory.state.parameters import stacks_experts
from memlint.memory.state.storage import BYTES, dtype_name
from memlint.memory.values import Tensor, Unit
from memlint.run import Run


def outlive_their_gathering(run: Run) -> bool:
    """Whether stacks that ZeRO-3 gathered stay whole from a layer's forward to its backward.

    The product saves a transposed view of the stack (transformers 5.23 integrations/moe.py:415, `_grouped_linear`),
    whose storage lives on when DeepSpeed gives the parameter another one. DeepSpeed replaces `F.linear` for that
    reason (0.19.8 runtime/zero/linear.py), but no grouped product. FSDP empties the storage itself. A layer that is
    computed again saves nothing between forward and backward.
    """
    parallel = run.parallelism
    if parallel.engine != "deepspeed" or parallel.zero.stage != 3 or run.checkpointing.mode != "none":
        return False
    stack, traits = run.stack, families.of(run.model.architecture).experts
    if stack.expert_kernel or stack.use_ktransformers or traits.inputs_first or traits.every_expert:
        return False
    import memlint.memory.sharding.zero.layout as zero

    return stacks_experts(run) and not traits.copied.include(stack.transformers) and zero.ranks(run) > 1


def loading_peak(run: Run, weights: int, units: tuple[Unit, ...]) -> int:
    """Bytes of weights while the last stack of experts is quantised on load and all else is there: its matrices are
    concatenated into a second tensor (transformers 5.16.1 core_model_loading.py, MergeModulelist and
    Concatenate), and 8 bits are made of a copy in fp16 (axolotl 0.19.0 monkeypatch/moe_quant.py:47)."""
    quantization = run.model.quantization
    if not quantization.experts_on_load:
        return 0
    width = BYTES[str(run.model.weights_dtype)]
    each = max(2 * width, width + 2 + 1) if quantization.bits > 4 else 2 * width
    return max((weights - stack.stored_bytes + each * stack.numel for stack, _ in _stacks(run, units)), default=0)


def constants(run: Run, units: tuple[Unit, ...]) -> int:
    """Bytes of the scales of all that bitsandbytes packed. They are an attribute or a buffer, which FSDP leaves whole
    (bitsandbytes 0.50.2 nn/modules.py:237 and nn/parametrize.py:37, `quant_state`; axolotl 0.19.0
    monkeypatch/moe_quant.py:30, `row_stats`)."""
    if run.model.quantization.method != "bnb":
        return 0
    bits = int(run.model.quantization.bits)
    return sum((one.stored_bytes - one.numel * bits // 8) * copies for one, copies in _packed(run, units))


def _stacks(run: Run, units: tuple[Unit, ...]) -> Iterator[tuple[Tensor, int]]:
    """Stacks that are quantised, and how many the model has of each."""
    return ((one, copies) for one, copies in _packed(run, units) if one.kind == "experts")


def _packed(run: Run, units: tuple[Unit, ...]) -> Iterator[tuple[Tensor, int]]:
    """Tensors that are quantised, and how many the model has of each."""
    name = dtype_name(run.model.quantization)
    for unit in units:
        for tensor in unit.tensors:
            if tensor.dtype == name and not tensor.trainable:
                yield tensor, tensor.copies * unit.repeat


def whole_constants(run: Run, units: tuple[Unit, ...], ranks: int) -> int:
    """Bytes of scales on a rank beyond its share, which counts with the weights that it divides. Offloaded weights have
    theirs on the card, where they were made."""
    every = constants(run, units)
    return every if run.parallelism.fsdp.cpu_offload else every - every // ranks
