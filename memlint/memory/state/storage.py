"""The bytes of a tensor: by dtype, rounded like PyTorch's allocator, and quantised."""

from __future__ import annotations

from memlint.architectures.model import Weight
from memlint.run import Quantization

# Bytes of one element.
BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8": 1,
    "float8_e4m3fn": 1,
    "int8": 1,
    "uint8": 1,
    "int64": 8,
    "int32": 4,
}
ALIGNMENT = 512  # kMinBlockSize, c10/cuda/CUDACachingAllocator.cpp, torch 2.13
_BLOCK_4BIT = 64  # default `blocksize`, bitsandbytes 0.50.2 functional.py:917
_FP8_BLOCK = (
    128 * 128
)  # weights per float32 scale: `weight_block_size` in config.json of DeepSeek-V3, Qwen3-FP8 and others
_BLOCK_ABSMAX = 256  # second level of `compress_statistics`, functional.py:940
# Frameworks' quantisers replace nn.Linear modules and skip the head: `get_keys_to_not_convert`,
# transformers 5.23 quantizers/base.py:259.
_LINEAR_ONLY = ("bnb", "torchao", "hqq", "eetq", "gptq", "awq", "aqlm", "quanto")
_STACKED_TOO = ("fp8", "mxfp4", "nvfp4")  # these checkpoints store 3-D experts quantised as well
SIZED = (*_LINEAR_ONLY, *_STACKED_TOO)  # methods for which the size of weights is known


def rounded(count: int) -> int:
    """`count` bytes as the allocator hands them out."""
    return (count + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def numel(shape: tuple[int, ...]) -> int:
    """Elements of one tensor."""
    total = 1
    for extent in shape:
        total *= extent
    return total


def is_quantized(
    weight: Weight, quantization: Quantization, skipped: tuple[str, ...] = (), stacked: bool = True
) -> bool:
    """Whether a base weight is stored quantised. `stacked`: experts are one 3-D parameter, not a list of linears.

    transformers leaves out the head where nothing is named that it should skip (transformers 5.16.1
    quantizers/base.py:240, get_modules_to_not_convert).
    """
    method = quantization.method
    if method == "none":
        return False
    if weight.kind == "head" and quantization.skipped:
        return not any(name in weight.name for name in skipped)
    if weight.kind == "experts" and stacked:
        return method in _STACKED_TOO or quantization.stacked_experts or quantized_on_load(weight, quantization)
    if weight.kind == "experts":
        return method in _LINEAR_ONLY or method in _STACKED_TOO
    if weight.kind != "linear" or (method not in _LINEAR_ONLY and method not in _STACKED_TOO):
        return False
    return not any(name in weight.name for name in skipped)


def quantized_on_load(weight: Weight, quantization: Quantization) -> bool:
    """Whether Axolotl's `quantize_moe_experts` packs this weight: three dimensions, and a name that says "expert"
    (axolotl 0.19.0 monkeypatch/moe_quant.py:108)."""
    return quantization.experts_on_load and len(weight.shape) >= 3 and "expert" in weight.name


def dtype_name(quantization: Quantization) -> str:
    """The stored dtype of a quantised tensor: nf4, fp4, int8, gptq4, awq4, fp8, ..."""
    if quantization.method in ("bnb", "torchao"):
        return quantization.kind or ("nf4" if quantization.bits <= 4 else "int8")
    if quantization.method in _STACKED_TOO:
        return quantization.method
    return f"{quantization.method}{quantization.bits:g}"


def quantized_bytes(shape: tuple[int, ...], quantization: Quantization) -> int:
    """Bytes of one quantised matrix with its constants, each constant rounded like a tensor of its own."""
    count = numel(shape)
    if quantization.method == "bnb":
        return _bnb_bytes(shape, count, quantization)
    if quantization.method == "torchao":
        return _nf4_bytes(count)
    return _grouped_bytes(shape, count, quantization)


def _bnb_bytes(shape: tuple[int, ...], count: int, quantization: Quantization) -> int:
    if quantization.bits > 4:
        # Int8Params: CB int8 and SCB, one fp32 per row (bitsandbytes 0.50.2 nn/modules.py).
        return rounded(count) + rounded(4 * shape[0])
    blocks = -(-count // _BLOCK_4BIT)
    packed = rounded((count + 1) // 2) + rounded(16 * 4)  # the 16-entry code table is made per tensor
    if not quantization.double_quant:
        return packed + rounded(4 * blocks)
    # absmax as uint8, its own absmax in fp32 per 256, the fp32 offset (functional.py:938-951).
    return packed + rounded(blocks) + rounded(4 * -(-blocks // _BLOCK_ABSMAX)) + ALIGNMENT


def _nf4_bytes(count: int) -> int:
    """NF4Tensor: two numbers a byte, an int8 scale of each 64, a bf16 factor of each 256 of these, the 16 values and
    the scales' mean (torchao 0.9 dtypes/nf4tensor.py, from_tensor)."""
    scales = -(-count // _BLOCK_4BIT)
    factors = -(-scales // _BLOCK_ABSMAX)
    return rounded((count + 1) // 2) + rounded(scales) + rounded(2 * factors) + 2 * ALIGNMENT


def _grouped_bytes(shape: tuple[int, ...], count: int, quantization: Quantization) -> int:
    """Group-wise formats: packed weights, and per group a 16-bit scale and a packed zero point."""
    packed = int(count * quantization.bits) // 8
    method = quantization.method
    if method in ("fp8", "eetq", "quanto", "int8"):
        scales = -(-count // _FP8_BLOCK) if method == "fp8" else shape[0]  # else one per row
        return rounded(packed) + rounded(4 * scales)
    if method == "mxfp4":
        return rounded(packed) + rounded(count // 32)  # one 8-bit exponent per 32 values
    if method == "nvfp4":
        return rounded(count // 2) + rounded(count // 16)  # one 8-bit scale per 16 values
    group = quantization.group_size or (64 if method == "hqq" else 128)
    groups = -(-count // group)
    if method == "hqq":
        return rounded(packed) + 2 * rounded(2 * groups)
    constants = rounded(2 * groups) + rounded(int(groups * quantization.bits) // 8)
    order = rounded(4 * shape[-1]) if method == "gptq" else 0  # g_idx, int32 per input feature
    return rounded(packed) + constants + order
