"""Image-text and audio-text models: towers, a projector, and a language model of another family."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.composite import language_model, nested, projected, whole
from memlint.architectures.model import Architecture, Tower, Weight


def _two_linear(hidden: int, inside: int, bias: bool, prefix: str = "") -> Weights:
    return linear(f"{prefix}linear_1", hidden, inside, bias) + linear(f"{prefix}linear_2", hidden, hidden, bias)


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


def glm4v(c: ModelConfig) -> Architecture:
    text = language_model(c, "glm4v_text", layer_class="Glm4vTextDecoderLayer")
    vision = nested(c, "vision_config")
    return whole(c, "Glm4vForConditionalGeneration", text, glm_tower(vision))


def glm_tower(c: ModelConfig) -> Tower:
    hidden, out, inner = c.integer("hidden_size"), c.integer("out_hidden_size"), c.integer("intermediate_size")
    patch, merge, depth = c.integer("patch_size"), c.integer("spatial_merge_size"), c.integer("temporal_patch_size")
    outside = (
        Weight("embeddings.position_embedding.weight", ((c.integer("image_size") // patch) ** 2, hidden), "position"),
        Weight("patch_embed.proj.weight", (hidden, c.integer("in_channels", 3), depth, patch, patch), "conv"),
        Weight("patch_embed.proj.bias", (hidden,), "bias"),
        *norm("post_conv_layernorm", hidden),
        Weight("downsample.weight", (out, hidden, merge, merge), "conv"),
        Weight("downsample.bias", (out,), "bias"),
        *norm("post_layernorm", hidden),
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
        layer_weights=(
            *norm("norm1", hidden),
            *norm("norm2", hidden),
            *linear("attn.qkv", 3 * hidden, hidden, c.flag("attention_bias")),
            *linear("attn.proj", hidden, hidden),
            *_glm_mlp("mlp.", hidden, out),
        ),
        projector_weights=(
            *linear("proj", out, out),
            *norm("post_projection_norm", out, True),
            *_glm_mlp("", out, inner),
        ),
        tower_prefix="model.visual",
        projector_prefix="model.visual.merger",
        layer_class="Glm4vVisionBlock",
        activation=c.text("hidden_act", "silu"),
    )


def _glm_mlp(prefix: str, hidden: int, inner: int) -> Weights:
    return (
        linear(f"{prefix}gate_proj", inner, hidden)
        + linear(f"{prefix}up_proj", inner, hidden)
        + linear(f"{prefix}down_proj", hidden, inner)
    )


FAMILIES = {
    "glm4v": glm4v,
    "idefics3": idefics3,
    "internvl": internvl,
    "llava": llava,
    "llava_next": llava_next,
    "llava_next_video": llava_next,
    "llava_onevision": llava_next,
    "mistral3": mistral3,
    "qwen2_audio": qwen2_audio,
    "smolvlm": idefics3,
    "vipllava": vipllava,
    "voxtral": voxtral,
}
