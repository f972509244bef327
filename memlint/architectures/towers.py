"""Vision and audio encoders: the blocks that stand before a language model."""

from __future__ import annotations

from typing import Any

from memlint.architectures.blocks import Weights, linear, norm, norms
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.model import Tower, Weight


def side(c: ModelConfig, name: str) -> int:
    """A size given as one number or as a square [n, n]."""
    value = c.get(name)
    return (
        c.integer(name)
        if not isinstance(value, (list, tuple))
        else ModelConfig({name: max(value)}, c.family).integer(name)
    )


def of_sizes(c: ModelConfig, **traits: Any) -> Tower:
    """A vision tower whose configuration names its sizes as most do. `traits`: the other fields."""
    return Tower(
        kind="vision",
        hidden_size=c.integer("hidden_size"),
        layers=c.layers(),
        heads=c.integer("num_attention_heads"),
        intermediate_size=c.integer("intermediate_size"),
        patch_size=side(c, "patch_size"),
        **traits,
    )


def transformer_layer(
    hidden: int,
    inner: int,
    *,
    attention: str = "self_attn",
    out: str = "out_proj",
    first_norm: str = "layer_norm1",
    second_norm: str = "layer_norm2",
    mlp: tuple[str, str] = ("mlp.fc1", "mlp.fc2"),
    key_bias: bool = True,
    qkv_bias: bool = True,
) -> Weights:
    """Pre-norm attention and a plain MLP, all with biases: CLIP, SigLIP, Whisper."""
    return (
        linear(f"{attention}.k_proj", hidden, hidden, qkv_bias and key_bias)
        + linear(f"{attention}.v_proj", hidden, hidden, qkv_bias)
        + linear(f"{attention}.q_proj", hidden, hidden, qkv_bias)
        + linear(f"{attention}.{out}", hidden, hidden, True)
        + norms(hidden, first_norm, second_norm, bias=True)
        + linear(mlp[0], inner, hidden, True)
        + linear(mlp[1], hidden, inner, True)
    )


def clip(c: ModelConfig, prefix: str) -> Tower:
    hidden, image, patch = c.integer("hidden_size"), side(c, "image_size"), side(c, "patch_size")
    positions = (image // patch) ** 2 + 1
    outside = (
        Weight("embeddings.class_embedding", (hidden,), "embedding"),
        Weight("embeddings.patch_embedding.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
        Weight("embeddings.position_embedding.weight", (positions, hidden), "position"),
        *norm("pre_layrnorm", hidden, True),
        *norm("post_layernorm", hidden, True),
    )
    return _tower(c, prefix, outside, patch, image, "CLIPEncoderLayer")


def siglip(c: ModelConfig, prefix: str) -> Tower:
    hidden, image, patch = c.integer("hidden_size"), side(c, "image_size"), side(c, "patch_size")
    outside: Weights = (
        Weight("embeddings.patch_embedding.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
        Weight("embeddings.patch_embedding.bias", (hidden,), "bias"),
        Weight("embeddings.position_embedding.weight", ((image // patch) ** 2, hidden), "position"),
        *norm("post_layernorm", hidden, True),
    )
    if c.flag("vision_use_head", True):
        outside += _pooling_head(hidden, c.integer("intermediate_size"))
    return _tower(c, prefix, outside, patch, image, "SiglipEncoderLayer")


def _pooling_head(hidden: int, inner: int) -> Weights:
    """SigLIP's attention pooling, which language models do not use but the class builds."""
    return (
        Weight("head.probe", (1, 1, hidden), "other"),
        Weight("head.attention.in_proj_weight", (3 * hidden, hidden), "linear"),
        Weight("head.attention.in_proj_bias", (3 * hidden,), "bias"),
        *linear("head.attention.out_proj", hidden, hidden, True),
        *norm("head.layernorm", hidden, True),
        *linear("head.mlp.fc1", inner, hidden, True),
        *linear("head.mlp.fc2", hidden, inner, True),
    )


def idefics(c: ModelConfig, prefix: str) -> Tower:
    """SigLIP without head, for images of any shape (Idefics 3, SmolVLM); its layers' operations are SigLIP's
    (transformers 5.23 models/idefics3/modeling_idefics3.py, Idefics3EncoderLayer)."""
    tower = siglip(ModelConfig({**c.values, "vision_use_head": False}, c.family, c.defaults, c.aliases), prefix)
    return tower._replace(layer_class="Idefics3EncoderLayer")


def _tower(c: ModelConfig, prefix: str, outside: Weights, patch: int, image: int, layer_class: str) -> Tower:
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    return of_sizes(
        c,
        image_size=image,
        weights=outside,
        layer_weights=transformer_layer(hidden, inner),
        tower_prefix=prefix,
        layer_class=layer_class,
        activation=c.text("hidden_act", "gelu"),
    )


def pixtral(c: ModelConfig, prefix: str) -> Tower:
    """Rotary positions, RMSNorm, gated MLP; images of any size."""
    hidden, inner, patch = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("patch_size")
    weights = norms(hidden, "attention_norm", "ffn_norm")
    for name in ("gate_proj", "up_proj"):
        weights += linear(f"feed_forward.{name}", inner, hidden)
    weights += linear("feed_forward.down_proj", hidden, inner)
    for name in ("k_proj", "v_proj", "q_proj", "o_proj"):
        weights += linear(f"attention.{name}", hidden, hidden)
    return of_sizes(
        c,
        mlp="gated",
        norm="rms",
        weights=(
            Weight("patch_conv.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
            *norm("ln_pre", hidden),
        ),
        layer_weights=weights,
        tower_prefix=prefix,
        layer_class="PixtralAttentionLayer",
        activation=c.text("hidden_act", "gelu"),
    )


def internvl(c: ModelConfig, prefix: str) -> Tower:
    """InternViT with layer scale."""
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    image, patch, bias = side(c, "image_size"), side(c, "patch_size"), c.flag("attention_bias")
    outside: Weights = (
        Weight("embeddings.cls_token", (1, 1, hidden), "embedding"),
        *((Weight("embeddings.mask_token", (1, 1, hidden), "embedding"),) if c.flag("use_mask_token") else ()),
        Weight(
            "embeddings.patch_embeddings.projection.weight",
            (hidden, c.integer("num_channels", 3), patch, patch),
            "conv",
        ),
        Weight("embeddings.patch_embeddings.projection.bias", (hidden,), "bias"),
    )
    if c.flag("use_absolute_position_embeddings", True):
        outside += (Weight("embeddings.position_embeddings", (1, (image // patch) ** 2 + 1, hidden), "position"),)
    if not c.flag("use_mean_pooling", True):
        outside += norm("layernorm", hidden, True)
    layer_norm = c.text("norm_type", "layer_norm") == "layer_norm"
    qk = norms(hidden, "attention.q_norm", "attention.k_norm") if c.flag("use_qk_norm") else ()
    weights = (
        Weight("lambda_1", (hidden,), "other"),
        Weight("lambda_2", (hidden,), "other"),
        *(weight for name in "qkv" for weight in linear(f"attention.{name}_proj", hidden, hidden, bias)),
        *linear("attention.projection_layer", hidden, hidden, True),
        *qk,
        *linear("mlp.fc1", inner, hidden, True),
        *linear("mlp.fc2", hidden, inner, True),
        *norms(hidden, "layernorm_before", "layernorm_after", bias=layer_norm),
    )
    return of_sizes(
        c,
        norm="layer" if layer_norm else "rms",
        image_size=image,
        weights=outside,
        layer_weights=weights,
        tower_prefix=prefix,
        max_tiles=12,
        layer_class="InternVLVisionLayer",
        activation=c.text("hidden_act", "gelu"),
    )


def whisper(c: ModelConfig, prefix: str) -> Tower:
    """Whisper's encoder: two convolutions over mel bins, learned positions."""
    hidden, inner, bins = c.integer("d_model"), c.integer("encoder_ffn_dim"), c.integer("num_mel_bins")
    positions = c.integer("max_source_positions")
    return Tower(
        kind="audio",
        hidden_size=hidden,
        layers=c.layers("encoder_layers"),
        heads=c.integer("encoder_attention_heads"),
        intermediate_size=inner,
        patch_size=1,
        tokens_per_image=positions,
        weights=(
            Weight("conv1.weight", (hidden, bins, 3), "conv"),
            Weight("conv1.bias", (hidden,), "bias"),
            Weight("conv2.weight", (hidden, hidden, 3), "conv"),
            Weight("conv2.bias", (hidden,), "bias"),
            Weight("embed_positions.weight", (positions, hidden), "position"),
            *norm("layer_norm", hidden, True),
        ),
        layer_weights=audio_layer(hidden, inner),
        tower_prefix=prefix,
    )


def audio_layer(hidden: int, inner: int) -> Weights:
    return transformer_layer(
        hidden,
        inner,
        first_norm="self_attn_layer_norm",
        second_norm="final_layer_norm",
        mlp=("fc1", "fc2"),
        key_bias=False,
    )


BY_TYPE = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "pixtral": pixtral,
    "internvl_vision": internvl,
    "qwen2_audio_encoder": whisper,
    "voxtral_encoder": whisper,
}


def by_type(c: ModelConfig, prefix: str) -> Tower:
    """The tower that the configuration's model_type names."""
    kind = c.text("model_type")
    build = BY_TYPE.get(kind)
    if build is None:
        raise UnsupportedConfig(f"no parameter shapes known for the tower `{kind[:60]}`")
    return build(c, prefix)
