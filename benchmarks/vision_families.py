"""How families whose models count their images' data take images on fake tensors.

Belongs to benchmarks/vision_inputs.py. Each function gives a model's inputs their images and tells the model what it
would count; the operations on tensors are the model's own, or stand here as its file has them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch

Inputs = dict[str, torch.Tensor]
Arrange = Callable[[Any, Inputs, Any, int, ExitStack], None]


def _having(model: Any, name: str) -> Any:
    return next(module for module in model.modules() if hasattr(module, name))


def _source(module: Any) -> Any:
    return sys.modules[type(module).__module__]


def _nothing(*_: Any, **__: Any) -> None:
    """Stands for a check of counts, or a mask that hides nothing."""


def _idefics(model: Any, inputs: Inputs, tower: Any, count: int, stack: ExitStack) -> None:
    """Tiles of one size, none of them padded: images are resized to whole tiles (models/smolvlm/
    image_processing_smolvlm.py, resize_for_vision_encoder)."""
    inner = _having(model, "connector")
    sequences, side = inputs["input_ids"].shape[0], tower.image_size
    shape = (sequences, count // sequences)
    inputs["pixel_values"] = torch.zeros((*shape, 3, side, side))
    inputs["pixel_attention_mask"] = torch.zeros((*shape, side, side), dtype=torch.int64)
    for name in ("create_bidirectional_mask", "torch_compilable_check"):
        stack.enter_context(mock.patch.object(_source(inner), name, _nothing))

    def features(pixels: torch.Tensor, mask: torch.Tensor, **_: Any) -> Any:
        """`get_image_features`, which lists the images that are not all zeros."""
        pixels = pixels.to(dtype=inner.dtype).view(-1, *pixels.shape[2:])
        (pixels == 0.0).sum(dim=(-1, -2, -3))
        real = torch.zeros(pixels.shape[0], dtype=torch.int64)
        pixels = pixels[real].contiguous()
        mask = mask.view(-1, *mask.shape[2:])[real].contiguous()
        grid = mask.unfold(1, tower.patch_size, tower.patch_size).unfold(2, tower.patch_size, tower.patch_size)
        seen = (grid.sum(dim=(-1, -2)) > 0).bool()
        found = inner.vision_model(pixel_values=pixels, patch_attention_mask=seen, return_dict=True)
        tokens = inner.connector(found.last_hidden_state)
        found.pooler_output = [part.reshape(-1, part.shape[-1]) for part in tokens.split([shape[1]] * sequences)]
        return found

    stack.enter_context(mock.patch.object(inner, "get_image_features", features))


ARRANGED: dict[str, Arrange] = {"idefics3": _idefics, "smolvlm": _idefics}
