"""Image-text and audio-text models: towers, a projector, and a language model of another family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from memlint.architectures import towers
from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, layer, linear, norm, norms
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import (
    dense,
    experts,
    gemma,
    gemma_n,
    hybrid,
    latent,
    llama,
    mixture,
    phi3,
    pre_llama,
    qwen_vision,
)
from memlint.architectures.model import Architecture, DecoderLayer, Tower, Weight, layer_parameters

Build = Callable[[ModelConfig], Architecture]


def _glm4v_text(c: ModelConfig) -> Architecture:
    """GLM-4V's text layers project q, k and v with a bias whatever the config says (modeling_glm4v.py)."""
    return dense.glm4(ModelConfig({**c.values, "attention_bias": True}, c.family, c.defaults, c.aliases))


# The language models that image-text and audio-text configurations name in `text_config.model_type`.
TEXT: Mapping[str, Build] = {
    **llama.FAMILIES,
    **gemma.FAMILIES,
    **gemma_n.FAMILIES,
    **dense.FAMILIES,
    **mixture.FAMILIES,
    **experts.FAMILIES,
    **hybrid.FAMILIES,
    **phi3.FAMILIES,
    "kimi_k2": latent.deepseek_v3,
    "deepseek_v2": latent.deepseek_v2,
    "glm4_moe_lite": latent.glm4_moe_lite,
    "mistral4": latent.mistral4,
    "deepseek_v3": latent.deepseek_v3,
    "qwen2_vl_text": llama.qwen2,
    "qwen2_5_vl_text": llama.qwen2,
    "qwen2_5_omni_text": llama.qwen2,
    "qwen3_vl_text": llama.qwen3,
    "qwen3_vl_moe_text": mixture.qwen3_moe,
    "glm4v_text": _glm4v_text,
    "glm4v_moe_text": experts.glm4_moe,
    "ernie4_5_vl_moe_text": experts.ernie4_5_vl_moe,
    "glm_ocr_text": dense.glm4,
    "hunyuan_vl_text": dense.hunyuan_v1_dense,
    "paddleocr_vl_text": dense.ernie4_5,
    "persimmon": pre_llama.persimmon,
    "molmo2_text": dense.molmo2_text,
    "deepseek_ocr2_text": experts.deepseek_ocr2_text,
}


def nested(c: ModelConfig, key: str, kind: str = "") -> ModelConfig:
    """The configuration under `key`, with the defaults of its own class (`kind` where it names no model_type)."""
    values = c.mapping(key)
    named = values.get("model_type")
    own = named if isinstance(named, str) else kind
    found = defaulted(values, f"{c.family}/{key}")
    if not found.defaults or (own and found.defaults.get("model_type") != own):
        other = defaulted(values, own) if own else found
        found = other if other.defaults else found
    found.family = own or found.family
    return found


def language_model(
    c: ModelConfig, kind: str, *, key: str = "text_config", prefix: str = "model.language_model.", layer_class: str = ""
) -> Architecture:
    """The nested language model, its tensors renamed to where they stand in the whole model."""
    values = c.mapping(key)
    text = (
        nested(c, key, kind)
        if values
        else ModelConfig(c.values, kind, defaulted(c.values, f"{c.family}/{key}").defaults)
    )
    family = text.text("model_type", kind) if values else kind
    build = TEXT.get(family) or TEXT.get(kind)
    if build is None:
        raise UnsupportedConfig(f"no block list for the language model `{family[:60]}`")
    tied = _tied(c, text)
    settled = ModelConfig({**text.values, "tie_word_embeddings": tied}, family, text.defaults, text.aliases)
    built = build(settled)
    outside = tuple(weight._replace(name=_moved(weight.name, prefix)) for weight in built.non_layer_weights)
    kinds = built.layer_types
    if layer_class:
        kinds = tuple(kind_._replace(class_name=layer_class) for kind_ in kinds)
    return built._replace(non_layer_weights=outside, layer_types=kinds)


def _moved(name: str, prefix: str) -> str:
    return prefix + name[len("model.") :] if name.startswith("model.") else name


# Configurations that tie the head where the nested language model's one says so, its class's default included
# (transformers 5.23 models/paddleocr_vl/configuration_paddleocr_vl.py:195 and others).
_EITHER_TIES = {"glm4v", "glm4v_moe", "glm_ocr", "hunyuan_vl", "paddleocr_vl", "qwen2_5_vl", "qwen2_vl"}


def _tied(c: ModelConfig, text: ModelConfig) -> bool:
    """The outer config decides; where it is silent the inner one's word, else the outer class's default."""
    if c.family in _EITHER_TIES:
        own = text if text.values is not c.values else ModelConfig({}, text.family, text.defaults)
        return c.flag("tie_word_embeddings") or own.flag("tie_word_embeddings")
    if c.has("tie_word_embeddings") or not text.has("tie_word_embeddings"):
        return c.flag("tie_word_embeddings")
    return text.flag("tie_word_embeddings")


def whole(c: ModelConfig, class_name: str, text: Architecture, *parts: Tower, extra: Weights = ()) -> Architecture:
    return text._replace(
        family=c.family, class_name=class_name, towers=parts, non_layer_weights=text.non_layer_weights + extra
    )


def _two_linear(hidden: int, inside: int, bias: bool, prefix: str = "") -> Weights:
    return linear(f"{prefix}linear_1", hidden, inside, bias) + linear(f"{prefix}linear_2", hidden, hidden, bias)


def qwen2_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_vl_text", layer_class="Qwen2VLDecoderLayer")
    return whole(c, "Qwen2VLForConditionalGeneration", text, qwen_vision.qwen2(nested(c, "vision_config")))


def qwen2_5_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_5_vl_text", layer_class="Qwen2_5_VLDecoderLayer")
    return whole(c, "Qwen2_5_VLForConditionalGeneration", text, qwen_vision.qwen2_5(nested(c, "vision_config")))


def qwen3_vl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_vl_text", layer_class="Qwen3VLTextDecoderLayer")
    return whole(c, "Qwen3VLForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_vl_moe(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_vl_moe_text", layer_class="Qwen3VLMoeTextDecoderLayer")
    return whole(c, "Qwen3VLMoeForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_5(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_5_text")
    return whole(c, "Qwen3_5ForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen3_5_moe(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen3_5_moe_text")
    return whole(c, "Qwen3_5MoeForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def qwen2_5_omni_thinker(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2_5_omni_text", layer_class="Qwen2_5OmniDecoderLayer")
    vision = qwen_vision.qwen2_5(nested(c, "vision_config"), split_qkv=True)
    return whole(c, "Qwen2_5OmniThinkerForConditionalGeneration", text, vision, _omni_audio(nested(c, "audio_config")))


def _omni_audio(c: ModelConfig) -> Tower:
    tower = towers.whisper(c, "model.audio_tower")
    hidden, out = tower.hidden_size, c.integer("output_dim")
    kept = tuple(w for w in tower.weights if not w.name.startswith(("embed_positions", "layer_norm")))
    own = (
        Weight("audio_bos_eos_token.weight", (2, out), "embedding"),
        *norm("ln_post", hidden, True),
        *linear("proj", out, hidden, True),
    )
    return tower._replace(weights=kept + own, projector_prefix="model.audio_tower.proj")


def projected(tower: Tower, weights: Weights, prefix: str = "model.multi_modal_projector", **traits: Any) -> Tower:
    return tower._replace(projector_weights=weights, projector_prefix=prefix, **traits)


def _feature_layers(c: ModelConfig) -> int:
    value = c.get("vision_feature_layer", -2)
    return len(value) if isinstance(value, (list, tuple)) else 1


def llava(c: ModelConfig) -> Architecture:
    text = language_model(c, "llama")
    tower = towers.by_type(nested(c, "vision_config", "clip_vision_model"), "model.vision_tower")
    bias = c.flag("multimodal_projector_bias", True)
    weights = _two_linear(text.hidden_size, tower.hidden_size * _feature_layers(c), bias)
    tokens = (tower.image_size // tower.patch_size) ** 2 if tower.image_size else 0
    return whole(c, "LlavaForConditionalGeneration", text, projected(tower, weights, tokens_per_image=tokens))


def llava_next(c: ModelConfig) -> Architecture:
    built = llava(c)
    newline = Weight("model.image_newline", (built.hidden_size,), "other")
    class_name = {
        "llava_next": "LlavaNextForConditionalGeneration",
        "llava_next_video": "LlavaNextVideoForConditionalGeneration",
        "llava_onevision": "LlavaOnevisionForConditionalGeneration",
    }[c.family]
    tower = built.towers[0]._replace(max_tiles=5 if c.family != "llava_onevision" else 10)
    return built._replace(class_name=class_name, non_layer_weights=(*built.non_layer_weights, newline), towers=(tower,))


def vipllava(c: ModelConfig) -> Architecture:
    text = language_model(c, "llama")
    tower = towers.by_type(nested(c, "vision_config", "clip_vision_model"), "model.vision_tower")
    layers = c.items("vision_feature_layers") or [-2, -5, -8, -11, 6]
    wide = len(layers) * tower.hidden_size
    weights = norm("projector_layernorm", wide, True) + _two_linear(text.hidden_size, wide, True)
    return whole(c, "VipLlavaForConditionalGeneration", text, projected(tower, weights))


def internvl(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2")
    tower = towers.internvl(nested(c, "vision_config"), "model.vision_tower")
    wide = int(tower.hidden_size * (1 / c.number("downsample_ratio", 0.5)) ** 2)
    weights = norm("layer_norm", wide, True) + _two_linear(text.hidden_size, wide, True)
    tokens = c.integer("image_seq_length", 256)
    return whole(c, "InternVLForConditionalGeneration", text, projected(tower, weights, tokens_per_image=tokens))


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


def idefics3(c: ModelConfig) -> Architecture:
    text = language_model(c, "llama", prefix="model.text_model.")
    vision = nested(c, "vision_config")
    tower = towers.idefics(vision, "model.vision_model")
    scale = c.integer("scale_factor", 2)
    weights = linear("modality_projection.proj", text.hidden_size, tower.hidden_size * scale**2)
    tokens = (tower.image_size // tower.patch_size // scale) ** 2
    class_name = "Idefics3ForConditionalGeneration" if c.family == "idefics3" else "SmolVLMForConditionalGeneration"
    return whole(
        c, class_name, text, projected(tower, weights, "model.connector", tokens_per_image=tokens, max_tiles=17)
    )


def mistral3(c: ModelConfig) -> Architecture:
    text = language_model(c, "mistral")
    tower = towers.by_type(nested(c, "vision_config", "pixtral"), "model.vision_tower")
    merge, bias = c.integer("spatial_merge_size", 2), c.flag("multimodal_projector_bias")
    wide = tower.hidden_size * _feature_layers(c)
    weights = (
        norm("norm", tower.hidden_size)
        + linear("patch_merger.merging_layer", tower.hidden_size, tower.hidden_size * merge**2)
        + _two_linear(text.hidden_size, wide, bias)
    )
    return whole(c, "Mistral3ForConditionalGeneration", text, projected(tower, weights, merge_size=merge))


def qwen2_audio(c: ModelConfig) -> Architecture:
    text = language_model(c, "qwen2")
    tower = towers.whisper(nested(c, "audio_config", "qwen2_audio_encoder"), "model.audio_tower")
    weights = linear("linear", text.hidden_size, tower.hidden_size, True)
    return whole(c, "Qwen2AudioForConditionalGeneration", text, projected(tower, weights, tokens_per_image=750))


def voxtral(c: ModelConfig) -> Architecture:
    text = language_model(c, "llama")
    audio = nested(c, "audio_config", "voxtral_encoder")
    tower = towers.whisper(audio, "model.audio_tower")
    weights = linear("linear_1", text.hidden_size, audio.integer("intermediate_size", 4 * tower.hidden_size)) + linear(
        "linear_2", text.hidden_size, text.hidden_size
    )
    return whole(c, "VoxtralForConditionalGeneration", text, projected(tower, weights, tokens_per_image=375))


def llama4(c: ModelConfig) -> Architecture:
    text = language_model(c, "llama4_text", prefix="language_model.model.")
    outside = tuple(
        weight._replace(name=f"language_model.{weight.name}") if weight.name.startswith("lm_head") else weight
        for weight in text.non_layer_weights
    )
    vision = nested(c, "vision_config")
    weights = linear("linear_1", text.hidden_size, vision.integer("vision_output_dim"))
    seen = _llama4_tower(vision)
    tokens = int((seen.image_size // seen.patch_size) ** 2 * vision.number("pixel_shuffle_ratio", 0.5) ** 2)
    tower = projected(seen, weights, "multi_modal_projector", tokens_per_image=tokens, max_tiles=17)
    return whole(c, "Llama4ForConditionalGeneration", text._replace(non_layer_weights=outside), tower)


def _llama4_tower(c: ModelConfig) -> Tower:
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    image, patch = c.integer("image_size"), c.integer("patch_size")
    out, inside = c.integer("projector_output_dim"), c.integer("projector_input_dim")
    ratio = c.number("pixel_shuffle_ratio", 0.5)
    outside = (
        Weight("class_embedding", (hidden,), "embedding"),
        Weight("positional_embedding_vlm", ((image // patch) ** 2 + 1, hidden), "position"),
        *linear("patch_embedding.linear", hidden, c.integer("num_channels", 3) * patch * patch),
        *norm("layernorm_pre", hidden, True),
        *norm("layernorm_post", hidden, True),
        *linear("vision_adapter.mlp.fc1", inside, int(hidden // ratio**2) if inner is None else inner),
        *linear("vision_adapter.mlp.fc2", out, inside),
    )
    weights = towers.transformer_layer(
        hidden,
        inner,
        out="o_proj",
        first_norm="input_layernorm",
        second_norm="post_attention_layernorm",
    )
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers(),
        heads=c.integer("num_attention_heads"),
        intermediate_size=inner,
        patch_size=patch,
        image_size=image,
        weights=outside,
        layer_weights=weights,
        tower_prefix="vision_model",
        layer_class="Llama4VisionEncoderLayer",
    )


def glm4v(c: ModelConfig) -> Architecture:
    text = language_model(c, "glm4v_text", layer_class="Glm4vTextDecoderLayer")
    vision = nested(c, "vision_config")
    return whole(c, "Glm4vForConditionalGeneration", text, glm_tower(vision))


def glm_tower(c: ModelConfig) -> Tower:
    hidden, out, inner = c.integer("hidden_size"), c.integer("out_hidden_size"), c.integer("intermediate_size")
    patch, merge, depth = c.integer("patch_size"), c.integer("spatial_merge_size"), c.integer("temporal_patch_size")
    bias = c.flag("attention_bias")
    outside = (
        Weight("embeddings.position_embedding.weight", ((c.integer("image_size") // patch) ** 2, hidden), "position"),
        Weight("patch_embed.proj.weight", (hidden, c.integer("in_channels", 3), depth, patch, patch), "conv"),
        Weight("patch_embed.proj.bias", (hidden,), "bias"),
        *norm("post_conv_layernorm", hidden),
        Weight("downsample.weight", (out, hidden, merge, merge), "conv"),
        Weight("downsample.bias", (out,), "bias"),
        *norm("post_layernorm", hidden),
    )
    weights = (
        norm("norm1", hidden)
        + norm("norm2", hidden)
        + linear("attn.qkv", 3 * hidden, hidden, bias)
        + linear("attn.proj", hidden, hidden)
        + linear("mlp.gate_proj", out, hidden)
        + linear("mlp.up_proj", out, hidden)
        + linear("mlp.down_proj", hidden, out)
    )
    merger = (
        linear("proj", out, out)
        + norm("post_projection_norm", out, True)
        + linear("gate_proj", inner, out)
        + linear("up_proj", inner, out)
        + linear("down_proj", out, inner)
    )
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers("depth"),
        heads=c.integer("num_heads"),
        intermediate_size=out,
        mlp="gated",
        norm="rms",
        patch_size=patch,
        merge_size=merge,
        temporal_patch_size=depth,
        weights=outside,
        layer_weights=weights,
        projector_weights=merger,
        tower_prefix="model.visual",
        projector_prefix="model.visual.merger",
        layer_class="Glm4vVisionBlock",
        activation=c.text("hidden_act", "silu"),
    )


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
    hidden, inner, dim, patch = (
        c.integer(name) for name in ("hidden_size", "intermediate_size", "head_dim", "patch_size")
    )
    heads, kv = c.integer("num_attention_heads"), c.integer("num_key_value_heads")
    table = Weight(
        "patch_embedder.position_embedding_table", (2, c.integer("position_embedding_size"), hidden), "position"
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
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers(),
        heads=heads,
        intermediate_size=inner,
        mlp="gated",
        norm="rms",
        patch_size=patch,
        merge_size=c.integer("pooling_kernel_size", 3),
        weights=(table, *linear("patch_embedder.input_proj", hidden, 3 * patch * patch)),
        layer_weights=weights,
        tower_prefix="model.vision_tower",
        # products whose inputs and outputs are clipped save both once more, which is not modelled
        layer_class="" if c.flag("use_clipped_linears") else "Gemma4VisionEncoderLayer",
        activation=c.text("hidden_activation", "gelu_pytorch_tanh"),
    )


def qwen2_5_omni(c: ModelConfig) -> Architecture:
    """The thinker, which is what frameworks train; the talker and its vocoder are weights that some hold beside it."""
    thinker = ModelConfig(c.mapping("thinker_config"), "qwen2_5_omni_thinker")
    return qwen2_5_omni_thinker(thinker)._replace(family=c.family, speech_weights=_omni_speech(c))


_TOKEN2WAV = 449_051_264  # parameters of Qwen2_5OmniToken2WavModel by its own defaults, which no checkpoint changes


def _omni_speech(c: ModelConfig) -> Weights:
    """The talker (modeling_qwen2_5_omni.py, Qwen2_5OmniTalkerForConditionalGeneration) and the vocoder."""
    if not c.mapping("talker_config"):
        return ()
    talker = ModelConfig(c.mapping("talker_config"), "qwen2_5_omni_talker")
    hidden, embedding = talker.integer("hidden_size"), talker.integer("embedding_size")
    vocabulary = talker.integer("vocab_size", 8448)
    layers = llama.qwen2(ModelConfig({**talker.values, "vocab_size": vocabulary}, "qwen2"))
    inside = sum(layer_parameters(layers.layer_types[kind]) for kind in layers.layer_type_ids)
    around = vocabulary * (embedding + hidden) + (embedding + 1) * hidden + hidden
    return (Weight("talker", (inside + around,), "other"), Weight("token2wav", (_TOKEN2WAV,), "other"))


def mllama(c: ModelConfig) -> Architecture:
    """Llama 3.2 Vision: cross-attention layers between the text layers read the image."""
    text, vision = nested(c, "text_config"), nested(c, "vision_config")
    hidden, vocabulary = text.integer("hidden_size"), text.integer("vocab_size")
    crossing = {str(index) for index in text.items("cross_attention_layers") or (3, 8, 13, 18, 23, 28, 33, 38)}

    def make(crosses: bool) -> DecoderLayer:
        own = grouped_query(
            text, prefix="cross_attn" if crosses else "self_attn", qk_norm="head" if crosses else "none"
        )
        gates = (Weight("cross_attn_attn_gate", (1,), "other"), Weight("cross_attn_mlp_gate", (1,), "other"))
        block = layer(
            "MllamaCrossAttentionDecoderLayer" if crosses else "MllamaSelfAttentionDecoderLayer",
            own,
            gated(text),
            llama.two_norms(text),
        )
        return block._replace(weights=block.weights + gates) if crosses else block

    built = decoder(
        text,
        "MllamaForConditionalGeneration",
        make,
        [str(index) in crossing for index in range(text.layers())],
        prefix="model.language_model.",
        tied=c.flag("tie_word_embeddings"),
        unmodelled="cross-attention layers hold the keys and values of image tiles",
    )
    # eight embeddings more than the head has: the image token and padding (modeling_mllama.py)
    embedding = Weight("model.language_model.embed_tokens.weight", (vocabulary + 8, hidden), "embedding")
    projector = linear("multi_modal_projector", hidden, vision.integer("vision_output_dim"), True)
    tower, end = _mllama_towers(vision)
    tower = tower._replace(projector_weights=projector, projector_prefix="model")
    return whole(
        c,
        "MllamaForConditionalGeneration",
        built._replace(non_layer_weights=(embedding, *built.non_layer_weights[1:])),
        tower,
        end,
    )


def _mllama_towers(c: ModelConfig) -> tuple[Tower, Tower]:
    """The local transformer and the gated global one after it."""
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    image, patch, tiles = c.integer("image_size"), c.integer("patch_size"), c.integer("max_num_tiles")
    ratios = len(c.items("supported_aspect_ratios")) or 8
    positions = (image // patch) ** 2 + 1
    outside = (
        Weight("class_embedding", (hidden,), "embedding"),
        Weight("patch_embedding.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
        Weight("gated_positional_embedding.gate", (1,), "other"),
        Weight("gated_positional_embedding.embedding", (positions, hidden), "position"),
        Weight(
            "gated_positional_embedding.tile_embedding.weight", (ratios + 1, tiles * positions * hidden), "position"
        ),
        *(
            weight
            for name in ("pre", "post")
            for weight in (
                Weight(f"{name}_tile_positional_embedding.gate", (1,), "other"),
                Weight(f"{name}_tile_positional_embedding.embedding.weight", (ratios + 1, tiles * hidden), "position"),
            )
        ),
        *norm("layernorm_pre", hidden, True),
        *norm("layernorm_post", hidden, True),
    )
    weights = tuple(
        weight
        for weight in towers.transformer_layer(
            hidden, inner, out="o_proj", first_norm="input_layernorm", second_norm="post_attention_layernorm"
        )
        if not (weight.name.startswith("self_attn") and weight.kind == "bias")
    )
    tower = Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers(),
        heads=c.integer("attention_heads"),
        intermediate_size=inner,
        patch_size=patch,
        image_size=image,
        tokens_per_image=1,  # one placeholder in the text; cross-attention reads the image
        max_tiles=tiles,
        weights=outside,
        layer_weights=weights,
        tower_prefix="model.vision_model",
    )
    gates = (Weight("gate_attn", (1,), "other"), Weight("gate_ffn", (1,), "other"))
    end = tower._replace(
        layers=c.layers("num_global_layers"),
        weights=(),
        layer_weights=weights + gates,
        tower_prefix="model.vision_model.global_transformer",
    )
    return tower, end


FAMILIES = {
    "mllama": mllama,
    "gemma4": gemma4,
    "gemma4_unified": gemma4_unified,
    "qwen2_5_omni": qwen2_5_omni,
    "gemma3": gemma3,
    "shieldgemma2": shieldgemma2,
    "glm4v": glm4v,
    "idefics3": idefics3,
    "internvl": internvl,
    "llama4": llama4,
    "llava": llava,
    "llava_next": llava_next,
    "llava_next_video": llava_next,
    "llava_onevision": llava_next,
    "mistral3": mistral3,
    "paligemma": paligemma,
    "qwen2_5_omni_thinker": qwen2_5_omni_thinker,
    "qwen2_5_vl": qwen2_5_vl,
    "qwen2_audio": qwen2_audio,
    "qwen2_vl": qwen2_vl,
    "qwen3_5": qwen3_5,
    "qwen3_5_moe": qwen3_5_moe,
    "qwen3_vl": qwen3_vl,
    "qwen3_vl_moe": qwen3_vl_moe,
    "smolvlm": idefics3,
    "vipllava": vipllava,
    "voxtral": voxtral,
}
