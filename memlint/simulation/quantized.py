"""Linear layers whose frozen weight is stored quantised, with the temporaries of the real kernels.

Sources: bitsandbytes 0.50.2 autograd/_functions.py (MatMul4Bit, MatMul8bitLt), functional.py (quantize_4bit),
nn/parametrize.py (replace_parameter_4bit); axolotl 0.19.0 monkeypatch/moe_quant.py (replace_parameter_8bit).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
import torch.nn.utils.parametrize as parametrize


class _Dequantised(torch.autograd.Function):  # type: ignore[misc]
    """y = x W^T with W dequantised for the duration of the product, in the forward and again in the backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        ctx.shape, ctx.width = shape, x.shape
        weight = torch.empty(shape, dtype=x.dtype)
        return torch.nn.functional.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        weight = torch.empty(ctx.shape, dtype=grads[0].dtype)
        return torch.matmul(grads[0], weight), None


class _Int8(torch.autograd.Function):  # type: ignore[misc]
    """LLM.int8: the input quantised from fp16, an int32 product, fp16 and the input's dtype; the input is kept for the
    backward, which dequantises the weight (MatMul8bitLt; backends/cuda/ops.py, int8_vectorwise_quant, int8_mm_dequant).
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
        ctx.shape = shape
        ctx.save_for_backward(x)
        rows = x.numel() // x.shape[-1]
        half = x.to(torch.float16)
        quantised = torch.empty(rows, shape[1], dtype=torch.int8)
        absolute = torch.empty(rows, shape[1], dtype=torch.float16)
        outliers = torch.empty(rows, shape[1], dtype=torch.bool)
        del half, absolute, outliers
        product = torch.empty(rows, shape[0], dtype=torch.int32)
        out = torch.empty(*x.shape[:-1], shape[0], dtype=torch.float16)
        out = out.to(x.dtype)
        del quantised, product
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        weight = torch.empty(ctx.shape, dtype=x.dtype)
        return torch.matmul(grads[0].to(x.dtype), weight), None


class QuantizedLinear(torch.nn.Linear):  # type: ignore[misc]
    """A stand-in for bitsandbytes' Linear4bit (bits 4) or Linear8bitLt (bits 8)."""

    def __init__(self, source: torch.nn.Linear, bits: int, double: bool, compute: torch.dtype, block: int = 64) -> None:
        super().__init__(1, 1, bias=False, device="meta")
        self.in_features, self.out_features = source.in_features, source.out_features
        self.bits, self.compute, self.clones = bits, compute, False
        count = source.weight.numel()
        stored = torch.empty((count + 1) // 2 if bits == 4 else count, 1, dtype=torch.uint8, device="meta")
        self.weight = torch.nn.Parameter(stored, requires_grad=False)
        self.bias = source.bias
        if bits == 8:
            self.register_buffer("scales", torch.empty(self.out_features, device="meta"))
            return
        blocks = -(-count // block)
        self.register_buffer("absmax", torch.empty(blocks, dtype=torch.uint8 if double else None, device="meta"))
        self.register_buffer("code", torch.empty(16, device="meta"))
        if double:
            self.register_buffer("absmax2", torch.empty(-(-blocks // 256), device="meta"))
            self.register_buffer("code2", torch.empty(256, device="meta"))
            self.register_buffer("offset", torch.empty(1, device="meta"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wanted = x.dtype
        shape = (self.out_features, self.in_features)
        with torch.autocast("cpu", enabled=False):
            if self.bits == 4:
                out: torch.Tensor = _Dequantised.apply(x.to(self.compute), shape)
            else:
                out = _Int8.apply(x, shape)
        if self.bias is not None:
            out = out + self.bias.to(out.dtype)
        out = out.to(wanted)
        return out.clone() if self.clones else out


def quantise(model: Any, bits: int, double: bool, compute: torch.dtype) -> None:
    """Replaces every linear layer but the head, as transformers' bitsandbytes integration does."""
    head = model.get_output_embeddings()
    _patch_dora()
    for name, module in list(model.named_modules()):
        if isinstance(module, torch.nn.Linear) and module is not head:
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], QuantizedLinear(module, bits, double, compute))


class _Packed(torch.nn.Module):  # type: ignore[misc]
    """Dequantises experts when the parameter is read, like Bnb4bitParametrization and Bnb8bitParametrization."""

    def __init__(self, stack: torch.Tensor, bits: int, double: bool, dtype: torch.dtype) -> None:
        super().__init__()
        self.shape, self.bits, self.double, self.dtype = stack.shape, bits, double, dtype
        count, options = stack.numel(), {"device": stack.device}
        if bits == 8:
            self.register_buffer("scales", torch.empty(count // stack.shape[-1], **options))
            return
        self.blocks = -(-count // 64)
        self.register_buffer("absmax", torch.empty(self.blocks, dtype=torch.uint8 if double else None, **options))
        self.register_buffer("code", torch.empty(16, **options))
        if double:
            self.register_buffer("absmax2", torch.empty(-(-self.blocks // 256), **options))
            self.register_buffer("offset", torch.empty(1, **options))

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def forward(self, packed: torch.Tensor) -> torch.Tensor:
        if self.bits == 8:
            return packed.view(self.shape).float() * torch.empty((), device=packed.device)
        scales = torch.empty(self.blocks if self.double else 0, device=packed.device)
        dequantized = torch.empty(self.shape, dtype=self.dtype, device=packed.device)
        del scales
        return dequantized


def quantise_experts(model: Any, bits: int, double: bool, compute: torch.dtype) -> None:
    """Packs stacked experts as Axolotl's `quantize_moe_experts` does while a checkpoint loads."""
    for name, module in list(model.named_modules()):
        if "expert" not in name:
            continue
        stacks = [(key, stack) for key, stack in module._parameters.items() if stack is not None and stack.ndim >= 3]
        for key, stack in stacks:
            count = (stack.numel() + 1) // 2 if bits == 4 else stack.numel()
            packed = torch.empty(count, dtype=torch.uint8 if bits == 4 else torch.int8, device=stack.device)
            setattr(module, key, torch.nn.Parameter(packed, requires_grad=False))
            parametrize.register_parametrization(module, key, _Packed(stack, bits, double, compute), unsafe=True)
        if stacks:
            module.register_forward_pre_hook(_cache)
            module.register_forward_hook(_forget, always_call=True)


def _cache(module: Any, inputs: Any) -> None:
    parametrize._cache_enabled += 1


def _forget(module: Any, inputs: Any, output: Any) -> None:
    parametrize._cache_enabled = max(0, parametrize._cache_enabled - 1)
    if not parametrize._cache_enabled:
        parametrize._cache = {}


def _patch_dora() -> None:
    """Makes DoRA's read of the dequantised weight work with the stand-ins
    (peft/utils/integrations.py, dequantize_module_weight, v0.21.2)."""
    import peft.tuners.lora.dora as dora

    original = dora.dequantize_module_weight
    if getattr(original, "knows_stand_ins", False):
        return

    def dequantise(module: Any) -> torch.Tensor:
        if not isinstance(module, QuantizedLinear):
            dequantized: torch.Tensor = original(module)
            return dequantized
        return torch.empty(module.out_features, module.in_features, dtype=module.compute, device=module.weight.device)

    dequantise.knows_stand_ins = True  # type: ignore[attr-defined]
    dora.dequantize_module_weight = dequantise


def match_peft_behaviour(model: Any) -> None:
    """Makes layers behave as PEFT's over quantised ones: they copy the result, cast the input only without autocast,
    and do not cast the sum back: fp16 plus bf16 stays fp32. DoRA follows the dtype of that input.

    peft/tuners/lora/bnb.py, Linear4bit.forward and Linear8bitLt.forward, v0.21.2.
    """
    for module in model.modules():
        base = getattr(module, "base_layer", None)
        if isinstance(base, QuantizedLinear):
            base.clones = base.bits == 4
            module.cast_input_dtype_enabled = False
            if hasattr(module, "lora_variant"):
                module.forward = partial(_forward, module)


def _forward(layer: Any, x: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = layer.base_layer(x)
    if layer.disable_adapters:
        return result
    dtype, in_autocast = result.dtype, torch.is_autocast_enabled("cpu")
    for name in layer.active_adapters:
        x = x if in_autocast else x.to(layer.lora_A[name].weight.dtype)
        if name in layer.lora_variant:
            result = layer.lora_variant[name].forward(layer, active_adapter=name, x=x, result=result)
            result = result if in_autocast else result.to(dtype)
            continue
        adapter_output = layer.lora_B[name](layer.lora_A[name](layer.lora_dropout[name](x))) * layer.scaling[name]
        result = result + (adapter_output if in_autocast else adapter_output.to(dtype))
    return result
