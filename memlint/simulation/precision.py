"""Autocast as on CUDA, and the wrappers that accelerate puts around a model's forward.

Autocast on CPU tensors has other operator lists than on CUDA: it runs layer_norm, softmax, pow and
others in half precision that CUDA runs in float32. `CudaOperators` adds the casts that CUDA makes
(aten/src/ATen/autocast_mode.h, AT_FORALL_FP32 and AT_FORALL_FP32_SET_OPT_DTYPE, v2.13.0).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

# AT_FORALL_FP32: inputs are cast to float32.
FP32 = frozenset(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow square softplus layer_norm "  # noqa: SIM905
    "native_layer_norm group_norm nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss "
    "nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss "
    "margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss "
    "binary_cross_entropy_with_logits dist pdist cdist renorm logsumexp cross_entropy __pow__ __rpow__".split()
)
# AT_FORALL_FP32_SET_OPT_DTYPE: the kernel computes and returns float32, unless the caller names a dtype.
FP32_OUTPUT = frozenset(("prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum"))
HALF = (torch.float16, torch.bfloat16)


class HalfToFloatSoftmax(torch.autograd.Function):  # type: ignore[misc]
    """softmax(float16, dtype=float32) on CUDA: no float32 copy of the input, a float16 gradient.

    bfloat16 is converted first (aten/src/ATen/native/SoftMax.cpp, softmax: `half_to_float` for kHalf only).
    """

    temporaries = True

    @staticmethod
    def forward(ctx: Any, scores: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(scores, dtype=torch.float32)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        (out,) = ctx.saved_tensors
        product = torch.empty_like(out) if HalfToFloatSoftmax.temporaries else None  # grad * output
        result = torch.empty_like(out, dtype=torch.float16)
        del product
        return result


class GroupedProduct(torch.autograd.Function):  # type: ignore[misc]
    """`grouped_mm` in fp32, which CUDA supports but fake tensors refuse (torch 2.13
    aten/src/ATen/native/cuda/GroupedBlas.cpp, _grouped_mm_cuda falls back; _meta_registrations.py:8644 wants bf16).
    Each gradient has the strides of its tensor (tools/autograd/derivatives.yaml, _grouped_mm; FunctionsManual.cpp,
    _grouped_mm_mat2_backward), so that the weight's gradient is used without a copy."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.layouts = tuple((one.shape, one.stride()) for one in (x, weight))
        ctx.save_for_backward(x if weight.requires_grad else None, weight if x.requires_grad else None)
        return torch.empty(x.shape[0], weight.shape[-1], dtype=x.dtype)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        wanted = zip(ctx.layouts, ctx.needs_input_grad)
        return tuple(torch.empty_strided(*layout) if is_wanted else None for layout, is_wanted in wanted)


_is_autocast_enabled = torch.is_autocast_enabled


class CudaOperators(TorchFunctionMode):  # type: ignore[misc]
    """Replaces operators that differ on CUDA. While CPU autocast is on, adds the casts of CUDA autocast. Code that asks
    whether autocast is on means that of CUDA, unless it names a device; it asks again when a checkpointed layer is
    recomputed."""

    def __enter__(self) -> Any:
        changed: Any = torch
        changed.is_autocast_enabled = lambda *device: _is_autocast_enabled(*(device or ("cpu",)))
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        if not any(isinstance(mode, CudaOperators) for mode in _get_current_function_mode_stack()):
            changed: Any = torch
            changed.is_autocast_enabled = _is_autocast_enabled

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "backward":
            with self:  # forwards that are recomputed inside need the mode, too
                return run_backward(args[0], _seeds(args, kwargs))
        if torch.is_autocast_enabled("cpu"):
            args, kwargs = _cast(name, args, kwargs)
        if name == "softmax" and kwargs.get("dtype") == torch.float32 and args[0].dtype == torch.float16:
            return HalfToFloatSoftmax.apply(args[0])
        if name in ("grouped_mm", "_grouped_mm") and args[0].dtype == torch.float32:
            return GroupedProduct.apply(*args[:2])
        if name == "dropout":
            return _dropout(*args, **kwargs)
        return func(*args, **kwargs)


def _dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """CUDA's fused kernel saves a mask of one byte per element, where CPU saves scaled noise in the input's dtype
    (aten/src/ATen/native/Dropout.cpp, is_fused_kernel_acceptable, v2.13.0)."""
    if not training or not p:
        return x
    result: torch.Tensor = torch.ops.aten.native_dropout(x, p, True)[0]
    return result


def _seeds(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The gradients of the roots: `gradient` of Tensor.backward, `grad_tensors` of torch.autograd.backward."""
    named = kwargs.get("gradient", kwargs.get("grad_tensors"))
    return args[1] if named is None and len(args) > 1 else named


def run_backward(tensors: Any, gradients: Any = None) -> None:
    """Calls the autograd engine directly: `Tensor.backward` and `torch.autograd.backward` would re-enter the mode."""
    roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    seeds = (gradients,) if isinstance(gradients, torch.Tensor) else gradients
    filled = tuple(torch.ones_like(root) for root in roots) if seeds is None else tuple(seeds)
    torch.autograd.Variable._execution_engine.run_backward(
        roots, filled, False, False, (), allow_unreachable=True, accumulate_grad=True
    )


def _cast(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as CUDA autocast hands them to the operator `name`."""
    if name in FP32_OUTPUT and kwargs.get("dtype") is None and _has_half(args[:1]):
        return args, {**kwargs, "dtype": torch.float32}
    if name in FP32 and (_has_half(args) or _has_half(kwargs.values())):
        return tuple(_to_fp32(arg) for arg in args), {key: _to_fp32(value) for key, value in kwargs.items()}
    return args, kwargs


def _has_half(values: Any) -> bool:
    return any(isinstance(value, torch.Tensor) and value.dtype in HALF for value in values)


def _to_fp32(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and value.dtype in HALF else value


def autocast(dtype: torch.dtype | None) -> AbstractContextManager[Any]:
    """CPU autocast in `dtype`, none for None. `CudaOperators` adds CUDA's casts."""
    return torch.autocast("cpu", dtype=dtype) if dtype is not None else nullcontext()


def outputs_in_fp32(forward: Callable[..., Any]) -> Callable[..., Any]:
    """`forward` with half-precision outputs converted to float32, as `accelerator.prepare` does."""
    from accelerate.utils.operations import convert_outputs_to_fp32

    converted: Callable[..., Any] = convert_outputs_to_fp32(forward)
    return converted
