"""Losses other than the model's own, with the allocations and saved tensors of the real ones.

Each has the signature of transformers' `loss_function(logits, labels, vocab_size)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from memlint.memory.fused_losses import TILE_COLUMNS


def upcast_first(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
    """transformers up to 4.48: fp32 logits, a contiguous copy of the shifted ones, then cross entropy.

    models/llama/modeling_llama.py, LlamaForCausalLM.forward, v4.45.2; loss/loss_utils.py, ForCausalLMLoss, v4.48.1.
    """
    logits = logits.float()
    shifted = logits[..., :-1, :].contiguous()
    return torch.nn.functional.cross_entropy(shifted.view(-1, vocab_size), labels[..., 1:].reshape(-1))


def as_they_are(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
    """A copy of the shifted logits in the model's dtype, then cross entropy (models/opt/modeling_opt.py, v4.45.2)."""
    shifted = logits[..., :-1, :].contiguous()
    return torch.nn.functional.cross_entropy(shifted.view(-1, vocab_size), labels[..., 1:].reshape(-1))


def upcast_head(causal: Any) -> None:
    """`logits = logits.float()` in the model's forward: the half-precision ones are freed
    (modeling_llama.py, v4.45.2)."""
    head = causal.get_output_embeddings()
    project = head.forward
    head.forward = lambda hidden: project(hidden).float()


class InPlaceCrossEntropy(torch.autograd.Function):  # type: ignore[misc]
    """A fused kernel over whole logits, which its gradient overwrites (Unsloth's and Liger's cross entropy)."""

    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(logits)
        losses = torch.empty(logits.shape[0], dtype=torch.float32)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return ctx.saved_tensors[0]


def fused(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
    """The fused kernel over the model's logits, without a copy or cast."""
    result: torch.Tensor = InPlaceCrossEntropy.apply(logits.view(-1, vocab_size))
    return result


def fused_after_upcast(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
    """`fused` under transformers up to 4.48: float32 logits and a contiguous copy of the shifted ones first."""
    shifted = logits.float()[..., :-1, :].contiguous()
    result: torch.Tensor = InPlaceCrossEntropy.apply(shifted.view(-1, vocab_size))
    return result


class FusedLinear(torch.autograd.Function):  # type: ignore[misc]
    """Liger's fused linear cross entropy: gradients are made in the forward, logits only chunk by chunk.

    liger_kernel/ops/fused_linear_cross_entropy.py, fused_linear_cross_entropy_forward, v0.8.5.
    """

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        tokens, width = hidden.shape
        chunk = chunk_length(tokens, width, weight.shape[0])
        grad_hidden = torch.zeros_like(hidden)
        grad_weight = torch.zeros_like(weight) if weight.requires_grad else None
        losses = torch.zeros(tokens, dtype=torch.float32)
        for start in range(0, tokens, chunk):
            part = hidden[start : start + chunk]
            logits = part @ weight.t()
            grad_hidden[start : start + chunk] = logits @ weight
            rows = part.to(logits.dtype) if grad_weight is not None else None  # `addmm` adds to the gradient in place
            del rows, logits  # the chunks share one buffer
        ctx.save_for_backward(grad_hidden, grad_weight)
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden, grad_weight


def chunk_length(tokens: int, width: int, vocab: int) -> int:
    """Tokens whose logits are alive at once: tokens / ceil(vocab / width), rounded up to a power of two."""
    parts = -(-vocab // width)
    return min(tokens, 1 << max(0, -(-tokens // parts) - 1).bit_length())


def fuse(causal: Any) -> None:
    """Patches a causal language model (not PEFT's wrapper) so that its forward never builds the logits."""
    head = causal.get_output_embeddings()

    def loss(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
        result: torch.Tensor = FusedLinear.apply(logits.reshape(-1, logits.shape[-1]), _trained_head(causal).weight)
        return result

    head.forward = lambda hidden: hidden
    causal.loss_function = loss


def _trained_head(causal: Any) -> Any:
    """The output projection, or its trainable copy under PEFT (liger_kernel 0.8.5 lce_maybe_trainable_lm_head)."""
    head = causal.get_output_embeddings()
    copies = getattr(head, "modules_to_save", None)
    return head if copies is None else copies[head.active_adapters[0]]


def chunked(causal: Any, chunk_tokens: int) -> None:
    """A loss that projects and scores `chunk_tokens` tokens at a time, each chunk checkpointed (TRL's chunked_nll)."""
    head = causal.get_output_embeddings()
    project = head.forward
    score = _checkpointed(project)

    def loss(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
        rows, targets = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
        parts = [
            score(rows[start : start + chunk_tokens], targets[start : start + chunk_tokens])
            for start in range(0, rows.shape[0], chunk_tokens)
        ]
        return torch.stack(parts).sum()

    head.forward = lambda hidden: hidden
    causal.loss_function = loss


def _checkpointed(project: Callable[..., Any]) -> Callable[..., Any]:
    from torch.utils.checkpoint import checkpoint

    def part(rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(project(rows).float(), targets, reduction="sum")

    return lambda rows, targets: checkpoint(part, rows, targets, use_reentrant=False, preserve_rng_state=False)


class FusedHead(torch.autograd.Function):  # type: ignore[misc]
    """What TRL's fused head allocates on CUDA: trl 1.16 kernels/chunked_logprob.py, ChunkedLogProbFunction.

    Its kernels write over the tile; the sums in fp32 are made by addmm with `out_dtype`, without temporaries.
    """

    @staticmethod
    def forward(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, tokens: int) -> torch.Tensor:
        ctx.dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else hidden.dtype
        ctx.tokens = min(tokens, hidden.shape[0])
        ctx.save_for_backward(hidden, weight)
        FusedHead._over_tiles(ctx, hidden, weight)
        return torch.zeros(hidden.shape[0], dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        hidden, weight = ctx.saved_tensors
        grad_hidden = torch.zeros(hidden.shape, dtype=torch.float32)
        grad_weight = torch.zeros(weight.shape, dtype=torch.float32) if weight.requires_grad else None
        tile = FusedHead._over_tiles(ctx, hidden, weight)
        found = grad_hidden.to(hidden.dtype), None if grad_weight is None else grad_weight.to(weight.dtype), None
        del tile
        return found

    @staticmethod
    def _over_tiles(ctx: Any, hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        tile = torch.empty((ctx.tokens, TILE_COLUMNS), dtype=ctx.dtype)
        for first in range(0, hidden.shape[0], ctx.tokens):
            rows = hidden[first : first + ctx.tokens].to(ctx.dtype)
            for start in range(0, weight.shape[0], TILE_COLUMNS):
                columns = weight[start : start + TILE_COLUMNS].to(ctx.dtype)
                del columns
            del rows
        return tile


def fuse_head(causal: Any, tokens: int) -> None:
    """Patches a causal language model (not PEFT's wrapper) so that its forward scores tokens in tiles."""
    head = causal.get_output_embeddings()

    def loss(logits: torch.Tensor, labels: torch.Tensor, vocab_size: int, **options: Any) -> torch.Tensor:
        hidden, mask = logits[:, :-1], torch.ones(labels[:, 1:].shape, dtype=torch.bool)
        rows = hidden.reshape(-1, hidden.shape[-1]).clone()  # `hidden_states[mask]` where every token has a label
        scores: torch.Tensor = FusedHead.apply(rows, _trained_head(causal).weight, tokens)
        del rows, mask
        return -scores.sum()

    head.forward = lambda hidden: hidden
    causal.loss_function = loss
