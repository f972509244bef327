"""The product of an input with the weight of a projection, which may be in 8 bits (bitsandbytes) or fp8 (torchao)."""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, Value
from memlint.memory.layers.kernel_config import LayerContext

_INT8, _HALF, _INT32 = 1, 2, 4  # bytes of an element


def base_product(context: LayerContext, weight: Parameter, x: Value, extent: str) -> Value:
    """`x W^T`, of the dtype of autocast or of `x`."""
    if weight.int8_product:
        return _int8_product(context, weight, x, extent)
    if context.kernels.float8 and not weight.quantized:
        from memlint.memory.layers.float8_product import float8_product  # few runs compute in fp8

        return float8_product(context.tape, weight, x, extent, context.kernels.autocast_width, context.kernels.float8)
    return ops.linear(
        context.tape, x, weight, extent, context.kernels.autocast_width, unpacks_with=context.kernels.unpacks_with
    )


def _int8_product(context: LayerContext, weight: Parameter, x: Value, extent: str) -> Value:
    """LLM.int8 (bitsandbytes 0.50.2 autograd/_functions.py:88, MatMul8bitLt): autocast does not reach inside.

    The input is quantised from fp16, with its absolute values and a mask of outliers beside it
    (backends/cuda/ops.py:213, int8_vectorwise_quant); the int32 product is converted to fp16, and from there to the
    input's dtype (:171, int8_mm_dequant). The input itself is kept for the backward, which dequantises the weight.
    """
    tape = context.tape
    is_half = x.width == _HALF and not context.kernels.bfloat16
    other = () if is_half else ((x.extent, _HALF),)
    tape.spike(*other, (x.extent, _INT8), (x.extent, _HALF), (x.extent, _INT8))
    product = () if is_half else ((extent, _HALF),)
    found = tape.new(extent, x.width)
    tape.spike((x.extent, _INT8), (extent, _INT32), *product)
    tape.node((found,), (x,), (x,), ((weight.extent, x.width),))
    return found
