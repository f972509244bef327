"""PaliGemma, Gemma 3 and Gemma 4: towers before Gemma's language models."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import (
    gemma,
)
from memlint.architectures.families.composite import language_model, nested, projected, whole
from memlint.architectures.model import Architecture, Tower, Weight


def shieldgemma2(c: ModelConfig) -> Architecture:
    return gemma3(defaulted(c.values, "gemma3"))._replace(family=c.family)


def gemma3(c: ModelConfig) -> Architecture:
    text = language_model(c, "gemma3_text")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_tower")
    weights = (
        Weight("mm_input_projection_weight", (tower.hidden_size, text.hidden_size), "other"),
        *norm("mm_soft_emb_norm", tower.hidden_size),
    )
    tokens = c.integer("mm_tokens_per_image", 256)
    return whole(c, "Gemma3ForConditionalGeneration", text, projected(tower, weights, tokens_per_image=tokens))


def paligemma(c: ModelConfig) -> Architecture:
    text = language_model(c, "gemma")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_tower")
    width = nested(c, "vision_config", "siglip_vision_model").integer(
        "projection_dim", c.integer("projection_dim", 2048)
    )
    tokens = (tower.image_size // tower.patch_size) ** 2
    parts = projected(tower, linear("linear", width, tower.hidden_size, True), tokens_per_image=tokens)
    return whole(c, "PaliGemmaForConditionalGeneration", text, parts)


def gemma4(c: ModelConfig) -> Architecture:
    text = language_model(c, "gemma4_text")
    parts = []
    if c.mapping("vision_config"):
        vision = nested(c, "vision_config")
        projection = linear("embedding_projection", text.hidden_size, vision.integer("hidden_size"))
        parts.append(projected(_gemma4_tower(vision), projection, "model.embed_vision", tokens_per_image=280))
    if c.mapping("audio_config"):
        audio = nested(c, "audio_config", "gemma4_audio")
        projection = linear("embedding_projection", text.hidden_size, audio.integer("output_proj_dims"))
        parts.append(projected(_gemma4_audio(audio), projection, "model.embed_audio", tokens_per_image=750))
    return whole(c, "Gemma4ForConditionalGeneration", text, *parts)


def gemma4_unified(c: ModelConfig) -> Architecture:
    """Gemma 4 12B: no encoders; patches of pixels and frames of samples are projected to the embedding's width."""
    text = language_model(c, "gemma4_unified_text")
    parts = []
    if c.mapping("vision_config"):
        vision = nested(c, "vision_config")
        projection = linear("embedding_projection", text.hidden_size, vision.integer("output_proj_dims"))
        parts.append(
            projected(
                _pixel_embedder(vision), projection, "model.embed_vision.multimodal_embedder", tokens_per_image=280
            )
        )
    if c.mapping("audio_config"):
        size = nested(c, "audio_config").integer("audio_embed_dim")
        frames = Tower("audio", size, 0, 1, 0, norm="rms", tower_prefix="model.embed_audio")
        projection = linear("embedding_projection", text.hidden_size, size)
        parts.append(projected(frames, projection, "model.embed_audio", tokens_per_image=750))
    return whole(c, "Gemma4UnifiedForConditionalGeneration", text, *parts)


def _pixel_embedder(c: ModelConfig) -> Tower:
    wide, patch, merge = c.integer("mm_embed_dim"), c.integer("patch_size"), c.integer("pooling_kernel_size")
    pixels = 3 * (patch * merge) ** 2
    weights = (
        Weight("pos_embedding", (c.integer("mm_posemb_size"), 2, wide), "position"),
        *norm("patch_ln1", pixels, True),
        *linear("patch_dense", wide, pixels, True),
        *norms(wide, "patch_ln2", "pos_norm", bias=True),
    )
    return Tower(
        kind="vision",
        hidden_size=wide,
        layers=0,
        heads=1,
        intermediate_size=0,
        patch_size=patch,
        merge_size=merge,
        weights=weights,
        tower_prefix="model.embed_vision",
    )


def _gemma4_audio(c: ModelConfig) -> Tower:
    """A conformer: two halves of a feed-forward, local attention, a convolution (modeling_gemma4.py)."""
    hidden, out = c.integer("hidden_size"), c.integer("output_proj_dims")
    first, second = (int(channels) for channels in c.items("subsampling_conv_channels") or (128, 32))
    heads, kernel = c.integer("num_attention_heads"), c.integer("conv_kernel_size")
    outside = (
        Weight("subsample_conv_projection.layer0.conv.weight", (first, 1, 3, 3), "conv"),
        *norm("subsample_conv_projection.layer0.norm", first),
        Weight("subsample_conv_projection.layer1.conv.weight", (second, first, 3, 3), "conv"),
        *norm("subsample_conv_projection.layer1.norm", second),
        *linear("subsample_conv_projection.input_proj_linear", hidden, second * 32),  # 128 mel bins, halved twice
        *linear("output_proj", out, hidden, True),
    )
    halves = tuple(
        weight
        for name in ("feed_forward1", "feed_forward2")
        for weight in (
            *linear(f"{name}.ffw_layer_1.linear", 4 * hidden, hidden),
            *linear(f"{name}.ffw_layer_2.linear", hidden, 4 * hidden),
            *norms(hidden, f"{name}.pre_layer_norm", f"{name}.post_layer_norm"),
        )
    )
    attention = tuple(
        weight
        for name in ("q_proj.linear", "k_proj.linear", "v_proj.linear", "post.linear", "relative_k_proj")
        for weight in linear(f"self_attn.{name}", hidden, hidden)
    )
    convolution = (
        *linear("lconv1d.linear_start.linear", 2 * hidden, hidden),
        *linear("lconv1d.linear_end.linear", hidden, hidden),
        Weight("lconv1d.depthwise_conv1d.weight", (hidden, 1, kernel), "conv"),
        *norms(hidden, "lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm_pre_attn", "norm_post_attn", "norm_out"),
    )
    scale = Weight("self_attn.per_dim_scale", (hidden // heads,), "other")
    return Tower(
        kind="audio",
        hidden_size=hidden,
        layers=c.layers(),
        heads=heads,
        intermediate_size=4 * hidden,
        norm="rms",
        weights=outside,
        layer_weights=halves + attention + convolution + (scale,),
        tower_prefix="model.audio_tower",
    )


def _gemma4_tower(c: ModelConfig) -> Tower:
    hidden, inner, dim = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("head_dim")
    heads, kv, positions = (
        c.integer(name) for name in ("num_attention_heads", "num_key_value_heads", "position_embedding_size")
    )
    weights = (
        linear("self_attn.q_proj.linear", heads * dim, hidden)
        + linear("self_attn.k_proj.linear", kv * dim, hidden)
        + linear("self_attn.v_proj.linear", kv * dim, hidden)
        + linear("self_attn.o_proj.linear", hidden, heads * dim)
        + norms(dim, "self_attn.q_norm", "self_attn.k_norm")
        + linear("mlp.gate_proj.linear", inner, hidden)
        + linear("mlp.up_proj.linear", inner, hidden)
        + linear("mlp.down_proj.linear", hidden, inner)
        + norms(hidden, *gemma.FOUR_NORMS)
    )
    return towers.of_sizes(
        c,
        mlp="gated",
        norm="rms",
        merge_size=c.integer("pooling_kernel_size", 3),
        weights=(
            Weight("patch_embedder.position_embedding_table", (2, positions, hidden), "position"),
            *linear("patch_embedder.input_proj", hidden, 3 * c.integer("patch_size") ** 2),
        ),
        layer_weights=weights,
        tower_prefix="model.vision_tower",
        # products whose inputs and outputs are clipped save both once more, which is not modelled
        layer_class="" if c.flag("use_clipped_linears") else "Gemma4VisionEncoderLayer",
        activation=c.text("hidden_activation", "gelu_pytorch_tanh"),
    )


FAMILIES = {
    "gemma4": gemma4,
    "gemma4_unified": gemma4_unified,
    "gemma3": gemma3,
    "shieldgemma2": shieldgemma2,
    "paligemma": paligemma,
}
