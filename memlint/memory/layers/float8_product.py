"""The product of a linear layer in fp8, by torchao or by Transformer Engine.

torchao (0.18 float8/float8_linear.py:31): parameters keep their dtype, and so do the tensors that are saved for the
backward: the input as the product reads it, whether the weight trains or not, and the weight itself. Autocast makes no
copy of the weight in half precision. Each operand is quantised when a product needs it: fp32 copies, scaled and
clamped, live beside what they become (float8_training_tensor.py:126, float8_utils.py:118). torch.compile leaves these
copies out.

Transformer Engine (2.20.2 pytorch/module/linear.py): the backward has fp8 copies, of the input transposed (:714) and of
the weight as it is and transposed (:563, :736). Products of Blackwell need no transposed ones, but for MXFP8, whose
scales run along the rows of one copy and the columns of the other (pytorch/tensor/mxfp8_tensor.py:140): its weights
always have both.
"""

from __future__ import annotations

import memlint.memory.autograd.ops as ops
from memlint.memory.autograd.tape import Parameter, ParameterGradient, Tape, Value

_FP8, _FP32 = 1, 4  # bytes of an element


def float8_product(tape: Tape, weight: Parameter, x: Value, extent: str, autocast_width: int, engine: str) -> Value:
    """`x W^T` of fp8 copies, in the dtype of autocast or of `x`. `extent`: that of the result. `engine`: torchao, te,
    te_rowwise (te without transposed copies), or te_mxfp8."""
    if engine == "torchao":
        return _of_torchao(tape, weight, x, extent, autocast_width)
    return _of_transformer_engine(tape, weight, x, extent, autocast_width, transposed=engine != "te_rowwise")


def _of_transformer_engine(
    tape: Tape, weight: Parameter, x: Value, extent: str, autocast_width: int, *, transposed: bool
) -> Value:
    width = autocast_width or x.width
    copies = 2 if transposed else 1
    inputs = [tape.new(x.extent, _FP8) for _ in range(copies if weight.trainable else 1)]
    weights = [tape.new(weight.extent, _FP8) for _ in range(copies if x.requires_grad else 1)]
    found = tape.new(extent, width)
    saved = [*(inputs[-1:] if weight.trainable else ()), *(weights if x.requires_grad else ())]
    trained = (ParameterGradient(weight.extent, width, weight.width),) if weight.trainable else ()
    gradient = ((extent, _FP8),) * copies
    tape.node((found,), (x,), saved, gradient, weights=trained, gradient_width=width)
    tape.drop(*inputs, *weights)
    return found


def _of_torchao(tape: Tape, weight: Parameter, x: Value, extent: str, autocast_width: int) -> Value:
    operand = ops.cast(tape, x, autocast_width or x.width)
    tape.spike(*_quantised(x.extent))
    tape.spike((x.extent, _FP8), *_quantised(weight.extent))
    found = tape.new(extent, operand.width)
    tape.spike((x.extent, _FP8), (weight.extent, _FP8))
    trained = (ParameterGradient(weight.extent, operand.width, weight.width),) if weight.trainable else ()
    fp8_copies = ((extent, _FP8), (weight.extent, _FP8), (extent, _FP8))
    tape.node((found,), (operand,), (operand,), (*fp8_copies, *_quantised(x.extent)), weights=trained)
    tape.drop(operand)
    return _before_gradients(tape, found, weight)


def _quantised(extent: str) -> tuple[tuple[str, int], ...]:
    """What lives while a tensor is quantised: scaled and clamped in fp32, and the fp8 copy."""
    return (extent, _FP32), (extent, _FP32), (extent, _FP8)


def _before_gradients(tape: Tape, product: Value, weight: Parameter) -> Value:
    """The product as what follows sees it. Its gradient and the weight are quantised before anything is computed."""
    found = Value(product.storage, product.extent, product.width, product.requires_grad)
    first = (product.extent, _FP8), *_quantised(weight.extent)
    tape.node((found,), (product,), (), first, aliases=True)
    return found
