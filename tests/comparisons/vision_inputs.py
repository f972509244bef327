"""Small image-text models, and simulated steps of them whose inputs hold images."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest import mock

import torch

import memlint.simulation.step as simulated_step
from memlint.run import Run
from memlint.simulation import SimulatedStep, simulate
from tests.architectures.small import SMALL
from tests.comparisons.vision_families import ARRANGED

TEXT = {**SMALL, "hidden_size": 384, "intermediate_size": 768, "num_hidden_layers": 6, "vocab_size": 32000}
TOWER = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4}
SQUARE = {"patch_size": 14, "image_size": 224}
QWEN = {"depth": 4, "num_heads": 4, "patch_size": 14, "hidden_size": 128, "intermediate_size": 512}
QWEN_3 = {**QWEN, "out_hidden_size": 384, "deepstack_visual_indexes": [1, 2], "num_position_embeddings": 256}
ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12]}}
LLAMA_4 = {"vision_output_dim": 384, "projector_input_dim": 384, "projector_output_dim": 384}
LLAMA_4_TEXT = {"model_type": "llama4_text", **TEXT, "intermediate_size_mlp": 768, "pad_token_id": 0, "head_dim": 64}
LLAMA_4_TEXT |= {"num_local_experts": 2, "interleave_moe_layer_step": 100, "num_experts_per_tok": 1}
GEMMA_4 = {**TOWER, "num_key_value_heads": 4, "head_dim": 32, "standardize": True, "position_embedding_size": 64}
GEMMA_4_TEXT = {"model_type": "gemma4_text", **TEXT, "head_dim": 64, "global_head_dim": 64, "num_kv_shared_layers": 0}
GEMMA_4_TEXT |= {"hidden_size_per_layer_input": 0}
AUDIO = {"d_model": 32, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 64, "output_dim": 384}
SIDE = 16  # patches of an image's side
PATCHES = SIDE * SIDE


class Images(NamedTuple):
    """`tokens` of one image; `packed`: pixels arrive as rows of patches, and `each` such pieces make one image."""

    tokens: int
    packed: bool = False
    each: int = 1


def _model(family: str, text: str, vision: dict[str, Any], **more: Any) -> dict[str, Any]:
    settings = {"model_type": text, **TEXT, **(ROPE if family.startswith(("qwen", "glm4v")) else {})}
    return {"model_type": family, "text_config": settings, "vision_config": vision, **more}


def _tower(kind: str, **more: Any) -> dict[str, Any]:
    return {"model_type": kind, **TOWER, **SQUARE, **more}


_SQUARES = {"image_size": [224, 224], "patch_size": [14, 14]}
_PIXTRAL = _tower("pixtral", head_dim=32)
_LLAVA_PIXTRAL = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full"}
_WIDE = {"projection_dim": 384}
MODELS: dict[str, tuple[dict[str, Any], Images]] = {
    "llava": (_model("llava", "llama", _tower("clip_vision_model")), Images(256)),
    "gemma3": (
        _model("gemma3", "gemma3_text", _tower("siglip_vision_model", vision_use_head=False), mm_tokens_per_image=64),
        Images(64),
    ),
    "paligemma": (
        _model("paligemma", "gemma", _tower("siglip_vision_model", vision_use_head=False, **_WIDE), **_WIDE),
        Images(256),
    ),
    "internvl": (
        _model("internvl", "qwen2", {**_tower("internvl_vision"), **_SQUARES}, image_seq_length=64),
        Images(64),
    ),
    "pixtral": (_model("llava", "mistral", _PIXTRAL, **_LLAVA_PIXTRAL), Images(256)),
    "mistral3": (_model("mistral3", "mistral", _PIXTRAL, vision_feature_layer=-1), Images(64)),
    "qwen2_vl": (
        _model("qwen2_vl", "qwen2_vl_text", {**QWEN, "embed_dim": 128, "hidden_size": 384}),
        Images(64, True),
    ),
    "qwen2_5_vl": (
        _model(
            "qwen2_5_vl",
            "qwen2_5_vl_text",
            {**QWEN, "out_hidden_size": 384, "fullatt_block_indexes": [1, 3], "window_size": 56},
        ),
        Images(64, True),
    ),
    "qwen2_5_omni": (
        _model(
            "qwen2_5_omni_thinker",
            "qwen2_5_omni_text",
            {**QWEN, "out_hidden_size": 384, "fullatt_block_indexes": [1, 3], "window_size": 56},
            audio_config=AUDIO,
        ),
        Images(64, True),
    ),
    "qwen3_vl": (_model("qwen3_vl", "qwen3_vl_text", QWEN_3), Images(64, True)),
    "glm4v": (_model("glm4v", "glm4v_text", {**QWEN, "out_hidden_size": 384, "image_size": 336}), Images(64, True)),
    "gemma4": (_model("gemma4", "gemma4_text", GEMMA_4, text_config=GEMMA_4_TEXT, audio_config=None), Images(256)),
    "llama4": (
        _model("llama4", "llama4_text", {**TOWER, **SQUARE, **LLAMA_4}, text_config=LLAMA_4_TEXT),
        Images(64),
    ),
    "idefics3": (_model("idefics3", "llama", _tower("idefics3_vision"), scale_factor=2), Images(64)),
    "smolvlm": (
        _model("smolvlm", "llama", {**_tower("smolvlm_vision"), "patch_size": 16, "image_size": 512}, scale_factor=4),
        Images(64),
    ),
}


class Known:
    """Lengths that a model would read from a tensor."""

    def __init__(self, *lengths: int) -> None:
        self.lengths = lengths

    def __getitem__(self, at: Any) -> Any:
        each = isinstance(at, tuple) and isinstance(at[0], torch.Tensor)  # a side of the image that each patch is of
        return torch.ones(at[0].shape, dtype=torch.int64) if each else self

    def cumsum(self, _: int) -> torch.Tensor:
        return torch.zeros(len(self.lengths), dtype=torch.int64)

    def __sub__(self, _: Any) -> Known:
        return self

    def __floordiv__(self, by: int) -> Known:
        return Known(*(length // by for length in self.lengths))

    def prod(self, *_: Any, **__: Any) -> Known:
        return self

    def tolist(self) -> list[int]:
        return list(self.lengths)


class _Torch:
    """`torch`, where `as_tensor` of images' sizes in pixels gives what is known of them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def as_tensor(self, sizes: list[tuple[int, int]], **_: Any) -> Areas:
        return Areas(sizes)


class Areas:
    """Sides, then areas, of images."""

    def __init__(self, sizes: list[tuple[int, int]]) -> None:
        self.sizes = sizes

    def __floordiv__(self, by: int) -> Areas:
        return Areas([(rows // by, columns // by) for rows, columns in self.sizes])

    def prod(self, **_: Any) -> Known:
        return Known(*(rows * columns for rows, columns in self.sizes))


def simulated(run: Run, config: dict[str, Any], settings: Images, images: int) -> SimulatedStep:
    """A step whose inputs hold `images` images for each sequence, or one as large where a model takes any size.

    `settings`: those of the model in MODELS."""
    family, tower = config["model_type"], run.model.architecture.towers[0]
    settings = settings._replace(each=images)
    count = images * int(run.batch.micro_batch_size)
    plain, checkpoint = simulated_step._inputs, simulated_step._checkpoint

    def switch(model: Any) -> None:
        _switch_tower(model, run.checkpointing.vision_tower, run.checkpointing.reentrant)

    def with_images(model: Any, step: Any) -> dict[str, torch.Tensor]:
        if run.checkpointing.mode == "none":  # else when the model's own layers are switched on, which comes later
            switch(model)
        inputs = plain(model, step)
        if family in ARRANGED:
            ARRANGED[family](model, inputs, tower, count, stack)
            return inputs
        inner = next(module for module in model.modules() if hasattr(module, "get_placeholder_mask"))
        inputs["pixel_values"] = _pixels(tower, settings, count)
        _place(inner, settings.packed)
        if family in ("gemma3", "paligemma"):
            inputs["token_type_ids"] = torch.zeros_like(inputs["input_ids"])
        if settings.packed:
            inputs["position_ids"] = torch.zeros((3, *inputs["input_ids"].shape), dtype=torch.int64)
        stack.enter_context(_told(inner, tower, count, settings))
        return inputs

    def as_llamafactory(model: Any, step: Any, tracker: Any) -> None:
        """LLaMA-Factory asks for gradients at trainable layers alone (model_utils/checkpointing.py:98); transformers'
        own hook on a tower's patch embedding makes frozen layers keep their inputs."""
        checkpoint(model, step, tracker)
        plain = run.checkpointing.skips_frozen_layers and run.method.freeze_vision_tower
        for name, module in model.named_modules() if plain else ():
            if name.endswith(
                ("patch_embedding", "patch_embeddings", "patch_conv", "patch_embed", "vision_model.embeddings")
            ):
                module._forward_hooks.clear()
        switch(model)

    patched = {"_inputs": with_images, "_checkpoint": as_llamafactory}
    with ExitStack() as stack, mock.patch.multiple(simulated_step, **patched):
        return simulate(run, config)


def _switch_tower(model: Any, is_on: bool | None, reentrant: bool) -> None:
    """As ms-swift does for the tower alone (4.6 trainers/mixin.py, _prepare_gradient_checkpointing)."""
    for name, tower in model.named_modules() if is_on is not None else ():
        if not name.endswith(("visual", "vision_tower")):
            continue
        if is_on:
            tower.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
            tower.enable_input_require_grads()
        else:
            tower.gradient_checkpointing_disable()
            tower.disable_input_require_grads()


def _pixels(tower: Any, images: Images, count: int) -> torch.Tensor:
    if images.packed:
        size = 3 * tower.temporal_patch_size * tower.patch_size**2
        return torch.zeros((count * PATCHES, size), dtype=torch.float32)
    return torch.zeros((count, 3, SIDE * 14, SIDE * 14), dtype=torch.float32)


def _place(inner: Any, several: bool) -> None:
    """Every token is an image's."""

    def mask(ids: Any, inputs_embeds: torch.Tensor, **_: Any) -> Any:
        found = torch.ones((*inputs_embeds.shape[:-1], 1), dtype=torch.bool)
        masks = 3 if hasattr(inner, "audio_tower") else 2  # of images, videos, sounds
        return (found,) * masks if several else found

    inner.get_placeholder_mask = mask
    if hasattr(inner.language_model, "_deepstack_process"):
        inner.language_model._deepstack_process = _add_deep_features


def _add_deep_features(hidden: torch.Tensor, mask: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
    """Qwen3VLTextModel._deepstack_process with the places counted already."""
    hidden = hidden.clone()
    rows = hidden.view(-1, hidden.shape[-1])
    places = torch.zeros(rows.shape[0], dtype=torch.int64)
    rows[places[: features.shape[0]]] = rows[places[: features.shape[0]]] + features.to(hidden.dtype)
    return hidden


def _told(inner: Any, tower: Any, count: int, images: Images) -> Any:
    """Counts that the model asks its inputs for."""
    module = sys.modules[type(inner).__module__]
    features = inner.get_image_features
    stack = ExitStack()
    if images.packed:
        each = Known(*[PATCHES * images.each] * (count // images.each))
        _swap(stack, inner, "get_image_features", lambda pixels, *_, **__: features(pixels, each, return_dict=True))
        for name, answer in _answers(tower, each, count).items():
            if hasattr(module, name):
                stack.enter_context(mock.patch.object(module, name, answer))
    elif tower.layer_class.startswith("Pixtral"):
        sizes = [(SIDE * tower.patch_size, SIDE * tower.patch_size)] * count
        _swap(stack, inner, "get_image_features", lambda **given: features(**{**given, "image_sizes": sizes}))
        stack.enter_context(mock.patch.object(module, "torch", _Torch()))
    return stack


def _swap(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    stack.enter_context(mock.patch.object(owner, name, value))


def _answers(tower: Any, each: Known, count: int) -> dict[str, Callable[..., Any]]:
    """Functions of transformers' vision_utils by name."""
    rows = count * PATCHES
    windows = Known(*[tower.window] * (rows // tower.window)) if tower.window else each
    return {
        "get_vision_attention_seqlens": lambda *_, **__: (each, None),
        "get_vision_position_ids": lambda *_, **__: torch.zeros((rows, 2), dtype=torch.int64),
        "get_vision_window_index": lambda *_, **__: (torch.zeros(rows // 4, dtype=torch.int64), windows),
        "get_max_seqlen": lambda *_, **__: None,
        "get_vision_interpolation_indices_and_weights": lambda *_, **__: (
            torch.zeros((rows, 4), dtype=torch.int64),
            torch.zeros((rows, 4)),
        ),
    }
