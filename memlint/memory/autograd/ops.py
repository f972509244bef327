"""Elementwise and matrix operations on a tape, with what PyTorch's autograd saves for each.

Sources: torch 2.13 tools/autograd/derivatives.yaml (which tensors a derivative reads) and
torch/csrc/autograd/FunctionsManual.cpp (what it allocates).
"""

from __future__ import annotations

from memlint.memory.autograd.tape import Parameter, ParameterGradient, Storage, Tape, Value

FP32_BYTES = 4  # bytes of fp32
INT64_BYTES = 8


def hold(x: Value) -> Value:
    """`x` with one more reference."""
    x.storage.references += 1
    return x


def cast(tape: Tape, x: Value, width: int) -> Value:
    """`x.to(dtype)`: the same tensor when it has that dtype already."""
    if x.width == width:
        return hold(x)
    found = tape.new(x.extent, width)
    tape.node((found,), (x,), packs=False)
    return found


def _autocast(tape: Tape, x: Value, width: int) -> Value:
    """`x` in autocast's dtype."""
    if x in tape.leaves and x.width == FP32_BYTES:
        return tape.cached_leaf(x, lambda: cast(tape, x, width))
    return cast(tape, x, width)


def copy(tape: Tape, x: Value, extent: str = "") -> Value:
    """A copy, as of `contiguous()`. Its gradient is a view of the incoming one."""
    found = tape.new(extent or x.extent, x.width)
    tape.node((found,), (x,), aliases=True, packs=False)
    return found


def add(tape: Tape, a: Value, b: Value) -> Value:
    """`a + b` in the wider dtype; saves nothing."""
    found = tape.new(a.extent, max(a.width, b.width))
    tape.node((found,), (a, b), aliases=True, packs=False)
    return found


def subtract(tape: Tape, a: Value, b: Value) -> Value:
    """`a - b` where `b` is one number per row: the gradient of `b` is a sum over a negated copy."""
    found = tape.new(a.extent, max(a.width, b.width))
    tape.node((found,), (b,), (), ((a.extent, a.width),) if b.requires_grad else (), packs=False)
    tape.node((found,), (a,), aliases=True, packs=False)
    return found


def multiply(tape: Tape, a: Value, b: Value) -> Value:
    """`a * b`: each factor is saved for the other's gradient."""
    width = max(a.width, b.width)
    saved = [value for value, other in ((a, b), (b, a)) if other.requires_grad and tape.grad]
    found = tape.new(a.extent, width)
    tape.node((found,), (a, b), saved, gradient_width=width, packs_first=True)
    return found


def multiply_by_row(tape: Tape, x: Value, factor: Value, width: int = FP32_BYTES) -> Value:
    """`x * factor` in fp32 (or in `width` bytes) with one factor per row. The factor's gradient is a full product
    before its sum."""
    found = tape.new(x.extent, width)
    tape.node((found,), (x, factor), (x, factor), ((x.extent, width),), gradient_width=width)
    return found


def scale(tape: Tape, x: Value) -> Value:
    """`x * number`."""
    found = tape.new(x.extent, x.width)
    tape.node((found,), (x,), packs=False)
    return found


def scale_in_place(tape: Tape, x: Value) -> Value:
    """`x *= number`: the result has the input's memory, the gradient memory of its own. Takes over the reference."""
    found = Value(x.storage, x.extent, x.width, x.requires_grad)
    tape.node((found,), (x,), packs=False)
    return found


def scale_by_constant(tape: Tape, x: Value, constant: Value) -> Value:
    """`x * tensor` where the tensor needs no gradient but is saved (cos, sin)."""
    width = max(x.width, constant.width)
    found = tape.new(x.extent, width)
    tape.node((found,), (x,), (constant,), gradient_width=width, packs_first=True)
    return found


def scale_by_weight(tape: Tape, weight: Parameter, x: Value) -> Value:
    """`weight * x` with a broadcast vector. The weight's gradient is a full product before its sum."""
    width = max(x.width, weight.width)
    found = tape.new(x.extent, width)
    if weight.trainable:
        gradient = (ParameterGradient(weight.extent, weight.width, weight.width),)
        temporaries = ((x.extent, width),)
        tape.node((found,), (x,), (x,), temporaries, weights=gradient, gradient_width=width, packs_first=True)
    else:
        tape.node((found,), (x,), gradient_width=width, packs_first=True)
    return found


def unary(tape: Tape, x: Value, temporaries: int = 0) -> Value:
    """An activation function whose derivative reads its input (silu, gelu, relu^2)."""
    found = tape.new(x.extent, x.width)
    tape.node((found,), (x,), (x,), ((x.extent, x.width),) * temporaries, packs_first=True)
    return found


def unary_in_fp32(tape: Tape, x: Value) -> Value:
    """`unary` of `x.float()`."""
    in_fp32 = cast(tape, x, FP32_BYTES)
    found = unary(tape, in_fp32)
    tape.drop(in_fp32)
    return found


def unary_by_result(tape: Tape, x: Value) -> Value:
    """An activation function whose derivative reads its result (tanh, sigmoid, relu, exp)."""
    found = tape.new(x.extent, x.width)
    tape.node((found,), (x,), (found,))
    return found


def dropout(tape: Tape, x: Value) -> Value:
    """`native_dropout`: a new tensor, and a mask of one byte per element, which is saved."""
    found = tape.new(x.extent, x.width)
    mask = tape.new(x.extent, 1)
    tape.node((found,), (x,), (mask,))
    tape.drop(mask)
    return found


def slice_of(tape: Tape, x: Value, extent: str) -> Value:
    """A slice: a view whose gradient is padded to the whole with zeros."""
    x.storage.references += 1
    found = Value(x.storage, extent, x.width, x.requires_grad)
    tape.node((found,), (x,), packs=False)
    return found


def view(tape: Tape, x: Value, temporaries: tuple[tuple[str, int], ...]) -> Value:
    """What writes over `x`: a view whose gradient is a new tensor, beside `temporaries` for a moment."""
    x.storage.references += 1
    found = Value(x.storage, x.extent, x.width, x.requires_grad)
    tape.node((found,), (x,), temporaries=temporaries)
    return found


def split(tape: Tape, x: Value, extents: tuple[str, ...]) -> tuple[Value, ...]:
    """`chunk` / `split`: views; their gradients are joined into one tensor."""
    x.storage.references += len(extents)
    found = tuple(Value(x.storage, extent, x.width, x.requires_grad) for extent in extents)
    tape.node(found, (x,), packs=False)
    return found


def concat(tape: Tape, parts: tuple[Value, ...], extent: str) -> Value:
    """`cat`: a new tensor; gradients are views."""
    found = tape.new(extent, parts[0].width)
    tape.node((found,), parts, aliases=True, packs=False)
    return found


def matmul(tape: Tape, a: Value, b: Value, extent: str) -> Value:
    """A batched product of two activations."""
    saved = [value for value, other in ((a, b), (b, a)) if other.requires_grad and tape.grad]
    found = tape.new(extent, a.width)
    tape.node((found,), (a, b), saved, packs_first=True)
    return found


def autocast_matmul(tape: Tape, a: Value, b: Value, extent: str, autocast_width: int) -> Value:
    """`matmul` as autocast runs it: both factors in its dtype. `autocast_width`: bytes of its elements, 0 without."""
    operands = [cast(tape, x, autocast_width or x.width) for x in (a, b)]
    found = matmul(tape, operands[0], operands[1], extent)
    tape.drop(*operands)
    return found


def linear(
    tape: Tape, x: Value, weight: Parameter, extent: str, autocast_width: int = 0, unpacks_with: int = 0
) -> Value:
    """`x @ weight.T`. `autocast_width`: bytes of an element in autocast's dtype, 0 without autocast. `unpacks_with`: as
    in `KernelConfig`.

    The input is saved only for the weight's gradient, the weight (or its cast) for the input's. Where the tape
    `keeps_linear_inputs`, the input of a frozen weight is saved too.
    A 4-bit or 8-bit base weight is dequantised inside the op, forward and backward (bitsandbytes 0.50.2
    autograd/_functions.py, MatMul4Bit), and the result takes the dtype of the input before its cast, fp32 after fp32
    norms (nn/modules.py, Linear4bit.forward: `.to(inp_dtype)`).
    """
    operand = _autocast(tape, x, autocast_width) if autocast_width else cast(tape, x, x.width)
    weight_copy = _cast_weight(tape, weight, operand.width)
    saves_input = weight.trainable or (tape.keeps_linear_inputs and not weight.quantized)
    saved: list[Value | Storage] = [operand] if saves_input else []
    if weight_copy is not None and operand.requires_grad:
        saved.append(weight_copy)
    found = tape.new(extent, operand.width)
    gradients = (ParameterGradient(weight.extent, operand.width, weight.width),) if weight.trainable else ()
    dequantized: tuple[tuple[str, int], ...] = ((weight.extent, operand.width),) if weight.quantized else ()
    if dequantized and unpacks_with:
        dequantized += ((weight.extent, unpacks_with),)
    if dequantized:
        tape.spike(*dequantized)
    tape.node((found,), (operand,), saved, dequantized, weights=gradients, packs_first=not weight.quantized)
    tape.drop(operand)
    if weight_copy is not None and not weight.trainable:
        tape.release(weight_copy)
    return _in_input_dtype(tape, found, x.width) if weight.quantized else found


def replace(tape: Tape, old: Value, new: Value) -> Value:
    """`x = new` where `x` was `old`: Python code drops the old tensor and holds the new one."""
    tape.drop(old)
    return new


def _in_input_dtype(tape: Tape, product: Value, width: int) -> Value:
    found = cast(tape, product, width)
    tape.drop(product)
    return found


def _cast_weight(tape: Tape, weight: Parameter, width: int) -> Storage | None:
    """The cast copy of a weight that the product reads; None when it reads the parameter itself."""
    if weight.quantized or weight.width == width:
        return None
    return tape.cached_cast(weight, width)
