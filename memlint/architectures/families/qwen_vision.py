"""Qwen-VL: a vision transformer over patches of any resolution, merged 2 x 2 into the language model."""

from __future__ import annotations

from typing import Any

from memlint.architectures.blocks import Weights, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Tower, Weight


def _patches(c: ModelConfig, hidden: int, bias: bool) -> Weights:
    patch, depth = c.integer("patch_size"), c.integer("temporal_patch_size", 2)
    weight = Weight("patch_embed.proj.weight", (hidden, c.integer("in_channels", 3), depth, patch, patch), "conv")
    return (weight, Weight("patch_embed.proj.bias", (hidden,), "bias")) if bias else (weight,)


def _tower(c: ModelConfig, hidden: int, inner: int, prefix: str, **traits: Any) -> Tower:
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers("depth"),
        heads=c.integer("num_heads"),
        intermediate_size=inner,
        patch_size=c.integer("patch_size"),
        merge_size=c.integer("spatial_merge_size", 2),
        temporal_patch_size=c.integer("temporal_patch_size", 2),
        tower_prefix=prefix,
        projector_prefix=f"{prefix}.merger",
        activation=c.text("hidden_act", "gelu"),
    )._replace(**traits)


def _attention(hidden: int) -> Weights:
    return linear("attn.qkv", 3 * hidden, hidden, True) + linear("attn.proj", hidden, hidden, True)


def _merger(wide: int, out: int, hidden: int, bias: bool) -> Weights:
    return norm("ln_q", hidden, bias) + linear("mlp.0", wide, wide, True) + linear("mlp.2", out, wide, True)


def qwen2(c: ModelConfig, prefix: str = "model.visual") -> Tower:
    hidden = c.integer("embed_dim")
    inner = int(hidden * c.number("mlp_ratio", 4))
    wide = hidden * c.integer("spatial_merge_size", 2) ** 2
    return _tower(
        c,
        hidden,
        inner,
        prefix,
        layer_class="Qwen2VLVisionBlock",
        weights=_patches(c, hidden, False),
        layer_weights=norms(hidden, "norm1", "norm2", bias=True)
        + _attention(hidden)
        + linear("mlp.fc1", inner, hidden, True)
        + linear("mlp.fc2", hidden, inner, True),
        projector_weights=_merger(wide, c.integer("hidden_size"), hidden, True),
    )


def qwen2_5(c: ModelConfig, prefix: str = "model.visual", split_qkv: bool = False) -> Tower:
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    wide = hidden * c.integer("spatial_merge_size", 2) ** 2
    attention = _attention(hidden)
    if split_qkv:
        attention = tuple(
            weight for name in ("q", "k", "v", "proj") for weight in linear(f"attn.{name}", hidden, hidden, True)
        )
    side = c.integer("window_size", 112) // c.integer("patch_size")
    return _tower(
        c,
        hidden,
        inner,
        prefix,
        layer_class="Qwen2_5OmniVisionBlock" if split_qkv else "Qwen2_5_VLVisionBlock",
        window=side * side,
        full_layers=tuple(int(index) for index in c.items("fullatt_block_indexes") if isinstance(index, int)),
        mlp="gated",
        norm="rms",
        weights=_patches(c, hidden, False),
        layer_weights=norms(hidden, "norm1", "norm2")
        + attention
        + linear("mlp.gate_proj", inner, hidden, True)
        + linear("mlp.up_proj", inner, hidden, True)
        + linear("mlp.down_proj", hidden, inner, True),
        projector_weights=_merger(wide, c.integer("out_hidden_size"), hidden, False),
    )


def qwen3(c: ModelConfig, prefix: str = "model.visual") -> Tower:
    """Qwen3's tower, with learned positions; Qwen3-VL also hands features of some layers over by mergers of their
    own."""
    hidden, inner, out = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("out_hidden_size")
    wide = hidden * c.integer("spatial_merge_size", 2) ** 2
    positions = Weight("pos_embed.weight", (c.integer("num_position_embeddings"), hidden), "position")
    deep: Weights = ()
    for index in range(len(c.items("deepstack_visual_indexes"))):
        deep += _fc_merger(f"deepstack_merger_list.{index}.", wide, out, wide)
    return _tower(
        c,
        hidden,
        inner,
        prefix,
        layer_class="Qwen3VLVisionBlock",
        weights=(*_patches(c, hidden, True), positions, *deep),
        layer_weights=norms(hidden, "norm1", "norm2", bias=True)
        + _attention(hidden)
        + linear("mlp.linear_fc1", inner, hidden, True)
        + linear("mlp.linear_fc2", hidden, inner, True),
        projector_weights=_fc_merger("", wide, out, hidden),
    )


def _fc_merger(prefix: str, wide: int, out: int, normed: int) -> Weights:
    return (
        norm(f"{prefix}norm", normed, True)
        + linear(f"{prefix}linear_fc1", wide, wide, True)
        + linear(f"{prefix}linear_fc2", out, wide, True)
    )
