"""Attention functions that save and allocate what the CUDA kernels do.

The CPU path of scaled dot-product attention differs from CUDA's, so a stand-in is registered with
transformers: it saves q, k, v, the output and a float32 log-sum-exp for the
backward, as FlashAttention 2 does (flash_attn/flash_attn_interface.py, FlashAttnFunc, v2.8) and as the
flash and memory-efficient kernels of `scaled_dot_product_attention` do.
"""

from __future__ import annotations

from typing import Any

import torch

FUSED = "memlint_fused"
SDPA = "memlint_scaled"


class FlashCore(torch.autograd.Function):  # type: ignore[misc]
    """Shapes (B, heads, S, head_dim); k and v may have fewer heads. No arithmetic, only allocations."""

    temporaries = True

    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        batch, heads, length, _ = query.shape
        # in the layout (B, S, heads, head_dim) of the kernel's output, so that reshaping it copies nothing
        out = torch.empty(batch, length, heads, value.shape[-1], dtype=query.dtype, device=query.device).transpose(1, 2)
        lse = torch.empty(batch, heads, length, dtype=torch.float32, device=query.device)
        ctx.save_for_backward(query, key, value, out, lse, bias)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        query, key, value, out, lse, bias = ctx.saved_tensors
        d_bias = torch.empty_like(bias) if ctx.needs_input_grad[3] else None
        if not FlashCore.temporaries:
            return (*(torch.empty_like(tensor) for tensor in (query, key, value)), d_bias)
        d_query = torch.empty_like(query)
        # flash_api.cpp mha_bwd (v2.8): softmax_d and dq_accum in float32, rows rounded to 128;
        # dk_expanded and dv_expanded with all heads under grouped-query attention.
        batch, heads, length, width = query.shape
        rows = (length + 127) // 128 * 128
        row_sums = torch.empty(batch, heads, rows, dtype=torch.float32, device=query.device)
        accumulator = torch.empty(batch, heads, rows, (width + 31) // 32 * 32, dtype=torch.float32, device=query.device)
        expanded = []
        if key.shape[1] != heads:
            expanded = [
                torch.empty(batch, heads, t.shape[2], t.shape[3], dtype=t.dtype, device=t.device) for t in (key, value)
            ]
        d_key, d_value = torch.empty_like(key), torch.empty_like(value)
        del row_sums, accumulator, expanded, lse, out
        return d_query, d_key, d_value, d_bias


def scaled(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The signature of transformers' attention interface; returns (B, S, heads, head_dim)."""
    wide = query.dtype == torch.float32
    if wide and torch.is_autocast_enabled("cpu"):
        target = torch.get_autocast_dtype("cpu")
        query, key, value = query.to(target), key.to(target), value.to(target)
    bias = options.get("position_bias")
    return FlashCore.apply(query, key, value, _additive_mask(query, key, bias)).transpose(1, 2), None


def _additive_mask(query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor | None:
    """The bias of each sequence of a padded batch, in the dtype of the queries (transformers 5.23
    integrations/sdpa_attention.py, create_position_bias_mask)."""
    if bias is None:
        return None
    mask = torch.ones(query.shape[0], 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    return torch.where(mask, bias, torch.finfo(query.dtype).min).to(query.dtype)


def flash(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """The same with values padded to the width of queries (transformers 5.23 integrations/flash_attention.py:72-108),
    which the kernels of scaled dot-product attention do not need."""
    narrower = query.shape[-1] - value.shape[-1]
    padded = torch.nn.functional.pad(value, [0, narrower]) if narrower else value
    out, _ = scaled(module, query, key, padded, attention_mask, **options)
    return out[..., : value.shape[-1]] if narrower else out, None


def register() -> None:
    """Makes the functions known to transformers under their names."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    def mask_of_padded_batch(*args: Any, **options: Any) -> torch.Tensor:
        return eager_mask(*args, **{**options, "allow_is_bidirectional_skip": False})

    def no_mask(*args: Any, **options: Any) -> None:
        return None

    AttentionMaskInterface.register("eager", mask_of_padded_batch)  # an encoder makes none where nothing is padded
    for name, function in ((FUSED, flash), (SDPA, scaled)):
        AttentionInterface.register(name, function)
        AttentionMaskInterface.register(name, no_mask)


def implementation(name: str) -> str:
    """The name to give transformers for a run with the attention implementation `name`."""
    if name == "eager":
        return "eager"
    return SDPA if name == "sdpa" else FUSED
