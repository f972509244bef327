"""Memory that CUDA kernels allocate and free inside one operator.

It counts in `max_memory_allocated`, but a dispatch mode cannot see it.
"""

from __future__ import annotations

from typing import Any

import torch

aten = torch.ops.aten


def _softmax_backward(args: tuple[Any, ...], out: Any) -> int:
    """`grad * output` in the gradient's dtype (aten/src/ATen/native/cuda/SoftMax.cu, softmax_backward_cuda_out)."""
    return int(args[0].numel() * args[0].element_size())


def _embedding_backward(args: tuple[Any, ...], out: Any) -> int:
    """Sorted and original indices, int64 each (aten/src/ATen/native/cuda/Embedding.cu)."""
    return int(2 * 8 * args[1].numel()) if args[1].numel() > 3072 else 0


TEMPORARIES = {
    aten._softmax_backward_data.default: _softmax_backward,
    aten.embedding_dense_backward.default: _embedding_backward,
}


def temporaries(func: Any, args: tuple[Any, ...], out: Any) -> int:
    """Bytes that the CUDA kernel of `func` allocates besides its outputs."""
    rule = TEMPORARIES.get(func)
    return rule(args, out) if rule else 0
