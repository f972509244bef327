"""How families whose models count their images' data take images on fake tensors."""

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
    return next(module for module in model.modules() if name in module._modules)


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


def _llama4(model: Any, inputs: Inputs, tower: Any, count: int, stack: ExitStack) -> None:
    """Pixels in float32, as the processor gives them, but for a model that is all of another dtype: it refuses them."""
    inner = _having(model, "multi_modal_projector")
    dtypes = {parameter.dtype for parameter in model.parameters()}
    dtype = torch.float32 if torch.float32 in dtypes else next(iter(dtypes))
    inputs["pixel_values"] = torch.zeros((count, 3, tower.image_size, tower.image_size), dtype=dtype)
    everything = torch.ones((*inputs["input_ids"].shape, 1), dtype=torch.bool)
    stack.enter_context(mock.patch.object(inner, "get_placeholder_mask", lambda *_, **__: everything))


def _gemma4(model: Any, inputs: Inputs, tower: Any, count: int, stack: ExitStack) -> None:
    """Square images of 16 x 16 tokens, padded to 280."""
    inner = _having(model, "vision_tower")
    rows, tokens, slots = tower.tokens_per_image * tower.merge_size**2, 256, tower.tokens_per_image
    inputs["pixel_values"] = torch.zeros((count, rows, 3 * tower.patch_size**2))
    inputs["image_position_ids"] = torch.zeros((count, rows, 2), dtype=torch.int64)
    everything = torch.ones(inputs["input_ids"].shape, dtype=torch.bool)
    nothing = torch.zeros(inputs["input_ids"].shape, dtype=torch.bool)
    real = torch.zeros(count * tokens, dtype=torch.int64)

    def mask(config: Any, inputs_embeds: torch.Tensor, **_: Any) -> torch.Tensor:
        eager = config._attn_implementation == "eager"
        return torch.zeros((count, 1, rows, rows), dtype=inputs_embeds.dtype if eager else torch.bool)

    def pooled(hidden_states: torch.Tensor, padding_positions: torch.Tensor, **_: Any) -> Any:
        """`Gemma4VisionPooler.forward`, whose one-hot matrix looks at data."""
        hidden_states = hidden_states.masked_fill(padding_positions.unsqueeze(-1), 0.0)
        weights = torch.zeros((count, rows, slots), dtype=torch.int64).float() / tower.merge_size**2
        output = weights.transpose(1, 2) @ hidden_states.float()
        torch.logical_not((weights == 0).all(dim=1))
        hidden_states = output.to(hidden_states.dtype)
        return hidden_states.float() * inner.vision_tower.pooler.root_hidden_size, (real, real)

    def features(pixels: torch.Tensor, places: torch.Tensor, **_: Any) -> Any:
        found = inner.vision_tower(pixel_values=pixels, pixel_position_ids=places)
        found.pooler_output = torch.split(inner.embed_vision(inputs_embeds=found.last_hidden_state), [tokens] * count)
        return found

    plain = torch.Tensor.__getitem__

    def taken(self: torch.Tensor, at: Any) -> Any:
        whole = isinstance(at, torch.Tensor) and at.dtype == torch.bool and at.shape == self.shape
        return self.flatten() if whole else plain(self, at)

    for owner, name, value in (
        (_source(inner), "create_bidirectional_mask", mask),
        (_source(inner), "torch_compilable_check", _nothing),
        (inner.vision_tower.pooler, "forward", pooled),
        (inner, "get_image_features", features),
        (inner, "get_placeholder_mask", lambda *_, **__: (everything, nothing, nothing)),
        (torch.Tensor, "__getitem__", taken),
    ):
        stack.enter_context(mock.patch.object(owner, name, value))


ARRANGED: dict[str, Arrange] = {"idefics3": _idefics, "smolvlm": _idefics, "llama4": _llama4, "gemma4": _gemma4}
