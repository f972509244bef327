"""Stacks of experts that are quantised as they load: what loading takes, and what FSDP2 leaves whole of them."""

from __future__ import annotations

from collections.abc import Iterator

from memlint.memory.storage import BYTES, dtype_name
from memlint.memory.values import Tensor, Unit
from memlint.run import Run


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
    """Bytes of all stacks' scales. They are an attribute or a buffer, which FSDP2 does not divide (bitsandbytes 0.50.2
    nn/parametrize.py:37, `quant_state`; axolotl 0.19.0 monkeypatch/moe_quant.py:30, `row_stats`)."""
    if not run.model.quantization.experts_on_load:
        return 0
    bits = int(run.model.quantization.bits)
    return sum((stack.stored_bytes - stack.numel * bits // 8) * copies for stack, copies in _stacks(run, units))


def _stacks(run: Run, units: tuple[Unit, ...]) -> Iterator[tuple[Tensor, int]]:
    """Stacks that are quantised, and how many the model has of each."""
    name = dtype_name(run.model.quantization)
    for unit in units:
        for tensor in unit.tensors:
            if tensor.kind == "experts" and tensor.dtype == name:
                yield tensor, tensor.copies * unit.repeat
