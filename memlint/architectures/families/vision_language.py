"""Image-text and audio-text models of 2025 and 2026: towers, a projector, and a language model of another family."""

from __future__ import annotations

from typing import Any

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families import qwen_vision
from memlint.architectures.families.composite import language_model, nested, projected, whole
from memlint.architectures.families.multimodal import glm_tower
from memlint.architectures.model import Architecture, Tower, Weight


def kimi_k25(c: ModelConfig) -> Architecture:
    """Kimi K2.5 and later: MoonViT before DeepSeek V3's language model."""
    text = language_model(c, "deepseek_v3")
    vision = nested(c, "vision_config")
    hidden = vision.integer("vt_hidden_size", vision.integer("hidden_size"))
    wide = hidden * _merged(vision)
    weights = (
        norm("pre_norm", c.integer("projection_hidden_size", hidden), True)
        + linear("in_proj", wide, wide, True)
        + linear("out_proj", text.hidden_size, wide, True)
    )
    tower = projected(_moonvit(vision, hidden), weights, "model.mm_projector")
    return whole(c, "Kimi_K25ForConditionalGeneration", text, tower)


def _merged(c: ModelConfig) -> int:
    height, width = (int(side) for side in c.items("merge_kernel_size") or (2, 2))
    return height * width


def _moonvit(c: ModelConfig, hidden: int) -> Tower:
    """A vision transformer with rotary positions and a learned grid (modeling_kimi_k25.py, Kimi_K25VisionModel). The
    published configurations prefix its sizes with `vt_` and its grid with `init_`."""
    inner, patch = c.integer("vt_intermediate_size", c.integer("intermediate_size")), c.integer("patch_size")
    height = c.integer("init_pos_emb_height", c.integer("pos_emb_height"))
    width = c.integer("init_pos_emb_width", c.integer("pos_emb_width"))
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers("vt_num_hidden_layers" if c.has("vt_num_hidden_layers") else "num_hidden_layers"),
        heads=c.integer("vt_num_attention_heads", c.integer("num_attention_heads")),
        intermediate_size=inner,
        patch_size=patch,
        merge_size=2,
        weights=(
            Weight("patch_embed.proj.weight", (hidden, 3, patch, patch), "conv"),
            Weight("patch_embed.proj.bias", (hidden,), "bias"),
            Weight("patch_embed.pos_emb.position_embeddings", (height, width, hidden), "position"),
            *norm("final_layernorm", hidden, True),
        ),
        layer_weights=_transformer_layer(hidden, inner),
        tower_prefix="model.vision_tower",
        activation="gelu_pytorch_tanh",
    )


def _transformer_layer(hidden: int, inner: int) -> Weights:
    """Two norms, attention of four matrices, an MLP of two; all with a bias."""
    return (
        *norm("norm1", hidden, True),
        *norm("norm2", hidden, True),
        *(weight for name in ("q_proj", "k_proj", "v_proj", "proj") for weight in _square(f"attn.{name}", hidden)),
        *linear("mlp.fc1", inner, hidden, True),
        *linear("mlp.fc2", hidden, inner, True),
    )


def _square(name: str, size: int) -> Weights:
    return linear(name, size, size, True)


def lfm2_vl(c: ModelConfig) -> Architecture:
    """LFM2-VL: SigLIP 2 with patches of any shape before LFM2."""
    text = language_model(c, "lfm2")
    vision = nested(c, "vision_config", "siglip2_vision_model")
    tower = _siglip2(vision)
    factor = c.integer("downsample_factor", 2)
    wide, inner, bias = (
        tower.hidden_size * factor**2,
        c.integer("projector_hidden_size"),
        c.flag("projector_bias", True),
    )
    weights = linear("linear_1", inner, wide, bias) + linear("linear_2", text.hidden_size, inner, bias)
    if c.flag("projector_use_layernorm", True):
        weights += norm("layer_norm", wide, True)
    return whole(c, "Lfm2VlForConditionalGeneration", text, projected(tower._replace(merge_size=factor), weights))


def _siglip2(c: ModelConfig) -> Tower:
    hidden, patch = c.integer("hidden_size"), c.integer("patch_size")
    tower = towers.siglip(ModelConfig({**c.values, "image_size": patch}, c.family, c.defaults, c.aliases), "")
    kept = tuple(weight for weight in tower.weights if not weight.name.startswith("embeddings."))
    return tower._replace(
        weights=(
            *linear("embeddings.patch_embedding", hidden, c.integer("num_channels", 3) * patch * patch, True),
            Weight("embeddings.position_embedding.weight", (c.integer("num_patches", 256), hidden), "position"),
            *kept,
        ),
        image_size=0,
        tower_prefix="model.vision_tower",
        layer_class="",
    )


def cohere2_vision(c: ModelConfig) -> Architecture:
    """Command A Vision: pixels are merged, and a projector with a gated activation halves its width."""
    text = language_model(c, "cohere2")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_tower")
    wide, inner = tower.hidden_size * c.integer("downsample_factor", 2) ** 2, c.integer("alignment_intermediate_size")
    weights = linear("linear_1", inner, wide, True) + linear("linear_2", text.hidden_size, inner // 2, True)
    return whole(c, "Cohere2VisionForConditionalGeneration", text, projected(tower, weights))


def aya_vision(c: ModelConfig) -> Architecture:
    text = language_model(c, "cohere2")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_tower")
    wide = tower.hidden_size * c.integer("downsample_factor", 2) ** 2
    inner = c.integer("alignment_intermediate_size", text.hidden_size)
    weights = (
        norm("layernorm", wide, True)
        + linear("linear_1", inner, wide, True)
        + linear("linear_2", text.hidden_size, inner // 2, True)
    )
    return whole(c, "AyaVisionForConditionalGeneration", text, projected(tower, weights))


def glm4v_moe(c: ModelConfig) -> Architecture:
    """GLM-4.5V: GLM-4V's tower before GLM-4.5's mixture, whose q, k and v have a bias as the configuration says."""
    text = language_model(c, "glm4v_moe_text", layer_class="Glm4vMoeTextDecoderLayer")
    return whole(c, "Glm4vMoeForConditionalGeneration", text, glm_tower(nested(c, "vision_config")))


def muse_glimmer(c: ModelConfig) -> Architecture:
    """A vision transformer with two frames a patch, an adapter and a projection before Muse Glimmer's text model
    (transformers 5.23 models/muse_glimmer/modeling_muse_glimmer.py:799 and :882)."""
    text = language_model(c, "muse_glimmer_text")
    vision = nested(c, "vision_config")
    hidden, inner, patch = (vision.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    places = vision.integer("pos_emb_height") * vision.integer("pos_emb_width")
    wide, pixels = c.integer("projector_hidden_size"), vision.integer("patch_temporal", 2) * 3 * patch**2
    tower = towers.of_sizes(
        vision,
        merge_size=vision.integer("merge_size", 2),
        weights=(
            *linear("patch_embedder.patch_embedding", hidden, pixels, False),
            Weight("patch_embedder.position_embedding_table.weight", (places, hidden), "position"),
            *norm("ln_pre", hidden, True),
            *norm("ln_post", hidden, True),
        ),
        layer_weights=_transformer_layer(hidden, inner),
        tower_prefix="model.vision_tower",
        activation="gelu",
    )
    adapter = linear("fc1", wide, c.integer("out_hidden_size"), False) + linear("fc2", wide, wide, False)
    projection = linear("model.vision_projection", text.hidden_size, wide, False)
    seen = projected(tower, adapter, "model.vision_adapter")
    return whole(c, "MuseGlimmerForConditionalGeneration", text, seen, extra=projection)


def qwen3_omni_moe_thinker(c: ModelConfig) -> Architecture:
    """The thinker of Qwen3-Omni: Qwen3-VL's tower and an audio encoder before Qwen3's mixture."""
    text = language_model(c, "qwen3_moe", prefix="model.", layer_class="Qwen3OmniMoeThinkerTextDecoderLayer")
    moved = tuple(
        weight._replace(name=weight.name.replace("model.", "model.language_model.", 1))
        for weight in text.non_layer_weights
    )
    vision, audio = nested(c, "vision_config"), nested(c, "audio_config")
    return whole(
        c,
        "Qwen3OmniMoeThinkerForConditionalGeneration",
        text._replace(non_layer_weights=moved, stack="model.language_model.layers"),
        _omni_tower(vision),
        omni_audio(audio),
    )


def _omni_tower(c: ModelConfig) -> Tower:
    """Qwen3-VL's tower with other names in its mergers (modeling_qwen3_omni_moe.py, Qwen3OmniMoeVisionPatchMerger)."""
    built = qwen_vision.qwen3(c)
    names = {"linear_fc1": "mlp.0", "linear_fc2": "mlp.2", "deepstack_merger_list": "merger_list"}

    def renamed(weight: Weight) -> Weight:
        name = weight.name.removeprefix("norm.") if weight.name.startswith("norm.") else ""
        found = f"ln_q.{name}" if name else weight.name.replace(".norm.", ".ln_q.")
        for old, new in names.items():
            found = found.replace(old, new)
        return weight._replace(name=found)

    return built._replace(
        weights=tuple(map(renamed, built.weights)), projector_weights=tuple(map(renamed, built.projector_weights))
    )


def omni_audio(c: ModelConfig) -> Tower:
    """Three convolutions over mel bins and time, and Whisper's layers (Qwen3OmniMoeAudioEncoder)."""
    hidden, inner, narrow = c.integer("d_model"), c.integer("encoder_ffn_dim"), c.integer("downsample_hidden_size", 480)
    bins, out = c.integer("num_mel_bins"), c.integer("output_dim")
    for _ in range(3):
        bins = (bins + 1) // 2
    weights: Weights = ()
    for index, inside in ((1, 1), (2, narrow), (3, narrow)):
        weights += (
            Weight(f"conv2d{index}.weight", (narrow, inside, 3, 3), "conv"),
            Weight(f"conv2d{index}.bias", (narrow,), "bias"),
        )
    return Tower(
        kind="audio",
        hidden_size=hidden,
        layers=c.layers("encoder_layers"),
        heads=c.integer("encoder_attention_heads"),
        intermediate_size=inner,
        patch_size=1,
        tokens_per_image=390,
        weights=(*weights, *linear("conv_out", hidden, narrow * bins), *norm("ln_post", hidden, True)),
        layer_weights=tuple(
            weight for weight in towers.audio_layer(hidden, inner) if weight.name != "self_attn.k_proj.bias"
        )
        + (Weight("self_attn.k_proj.bias", (hidden,), "bias"),),
        projector_weights=linear("proj1", hidden, hidden, True) + linear("proj2", out, hidden, True),
        tower_prefix="model.audio_tower",
        projector_prefix="model.audio_tower",
    )


def qwen3_omni_moe(c: ModelConfig) -> Architecture:
    """The thinker, which is what frameworks train; the talker and its vocoder are weights that some hold beside it."""
    thinker = ModelConfig(c.mapping("thinker_config"), "qwen3_omni_moe_thinker")
    speech = _OMNI_SPEECH if c.mapping("talker_config") and c.flag("enable_audio_output", True) else ()
    return qwen3_omni_moe_thinker(thinker)._replace(family=c.family, speech_weights=speech)


# The one size that was published: Qwen3OmniMoeTalkerForConditionalGeneration with 20 layers of 128 experts, a shared
# expert of 768 and 16 codebooks, and Qwen3OmniMoeCode2Wav (modeling_qwen3_omni_moe.py). With the thinker 35.3 B.
_OMNI_SPEECH = (Weight("talker", (3_324_596_480,), "other"), Weight("code2wav", (216_016_577,), "other"))


def step3p7(c: ModelConfig) -> Architecture:
    """Step-3.7: a vision transformer with layer scale and two convolutions before a gated mixture. A configuration
    without `text_config` is the language model's own."""
    if not c.mapping("text_config") and c.has("num_hidden_layers"):
        text = language_model(ModelConfig({"text_config": dict(c.values)}, c.family), "step3p5")
        return text._replace(family=c.family, class_name="Step3p7ForConditionalGeneration")
    text = language_model(c, "step3p5")
    tower = _step_tower(nested(c, "vision_config"))
    weights = linear("multi_modal_projector", text.hidden_size, 4 * tower.hidden_size, c.flag("projector_bias"))
    return whole(c, "Step3p7ForConditionalGeneration", text, projected(tower, weights, "model"))


def _step_tower(c: ModelConfig) -> Tower:
    hidden = c.integer("width", c.integer("hidden_size"))
    inner, patch, image = (
        int(hidden * c.number("mlp_ratio", 8960 / 1536)),
        c.integer("patch_size"),
        c.integer("image_size"),
    )
    convolutions: Weights = ()
    for index, factor in ((1, 1), (2, 2)):
        convolutions += (
            Weight(f"downsampler{index}.weight", (2 * factor * hidden, factor * hidden, 3, 3), "conv"),
            Weight(f"downsampler{index}.bias", (2 * factor * hidden,), "bias"),
        )
    scales = (Weight("lambda_1", (hidden,), "other"), Weight("lambda_2", (hidden,), "other"))
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=c.layers("layers" if c.has("layers") else "num_hidden_layers"),
        heads=c.integer("heads", c.integer("num_attention_heads")),
        intermediate_size=inner,
        patch_size=patch,
        image_size=image,
        tokens_per_image=(image // patch // 4) ** 2,
        weights=(
            Weight("embeddings.patch_embedding.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
            Weight("embeddings.position_embedding.weight", ((image // patch) ** 2, hidden), "position"),
            *norm("pre_layernorm", hidden, True),
            *convolutions,
        ),
        layer_weights=scales
        + towers.transformer_layer(hidden, inner, first_norm="layernorm_before", second_norm="layernorm_after"),
        tower_prefix="model.vision_model",
        activation="quick_gelu",
    )


# timm's mobilenetv5_300m_enc, the one vision tower of Gemma 3n: its classes are timm's, its tensors not listed.
_MOBILENET = (Weight("timm_model", (294_126_912,), "other"),)


def gemma3n(c: ModelConfig) -> Architecture:
    """Gemma 3n: MobileNet and a conformer before the language model that its text configuration describes."""
    text = language_model(c, "gemma3n_text")
    vision, audio = nested(c, "vision_config"), nested(c, "audio_config", "gemma3n_audio")
    image = Tower("vision", vision.integer("hidden_size", 2048), 0, 1, 0, norm="rms", weights=_MOBILENET)
    image = image._replace(image_size=768, tower_prefix="model.vision_tower")
    tokens = c.integer("vision_soft_tokens_per_image", 256)
    seen = projected(image, _soft_tokens(vision, text), "model.embed_vision", tokens_per_image=tokens)
    sounds = c.integer("audio_soft_tokens_per_image", 188)
    heard = projected(_conformer(audio), _soft_tokens(audio, text), "model.embed_audio", tokens_per_image=sounds)
    return whole(c, "Gemma3nForConditionalGeneration", text, seen, heard)


def _soft_tokens(c: ModelConfig, text: Architecture) -> Weights:
    """A table of the tower's own tokens, norms, and the projection to the embedding (Gemma3nMultimodalEmbedder)."""
    size = c.integer("hidden_size")
    return (
        Weight("embedding.weight", (c.integer("vocab_size", 128), size), "embedding"),
        *norm("hard_embedding_norm", size),
        *norm("soft_embedding_norm", size),
        *linear("embedding_projection", text.hidden_size, size),
    )


def _conformer(c: ModelConfig) -> Tower:
    """Two halves of a feed-forward around local attention and a convolution (Gemma3nAudioConformerBlock)."""
    hidden, heads, kernel = (
        c.integer("hidden_size"),
        c.integer("conf_num_attention_heads"),
        c.integer("conf_conv_kernel_size"),
    )
    first, second = (int(channels) for channels in c.items("sscp_conv_channel_size") or (128, 32))
    halves = tuple(
        weight
        for name in ("ffw_layer_start", "ffw_layer_end")
        for weight in (
            *linear(f"{name}.ffw_layer_1", 4 * hidden, hidden),
            *linear(f"{name}.ffw_layer_2", hidden, 4 * hidden),
            *norms(hidden, f"{name}.pre_layer_norm", f"{name}.post_layer_norm"),
        )
    )
    inner = ("attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.relative_position_embedding.pos_proj", "post")
    attention = tuple(weight for name in inner for weight in linear(f"attention.{name}", hidden, hidden))
    around = (
        Weight("attention.attn.per_dim_scale", (hidden // heads,), "other"),
        *linear("lconv1d.linear_start", 2 * hidden, hidden),
        *linear("lconv1d.linear_end", hidden, hidden),
        Weight("lconv1d.depthwise_conv1d.weight", (hidden, 1, kernel), "conv"),
        *norms(hidden, "lconv1d.pre_layer_norm", "lconv1d.conv_norm", "norm"),
        *norms(hidden, "attention.pre_attn_norm", "attention.post_norm"),
    )
    front = "subsample_conv_projection"
    return Tower(
        kind="audio",
        hidden_size=hidden,
        layers=c.layers("conf_num_hidden_layers"),
        heads=heads,
        intermediate_size=4 * hidden,
        norm="rms",
        weights=(
            Weight(f"{front}.conv_0.conv.weight", (first, 1, 3, 3), "conv"),
            *norm(f"{front}.conv_0.norm", first),
            Weight(f"{front}.conv_1.conv.weight", (second, first, 3, 3), "conv"),
            *norm(f"{front}.conv_1.norm", second),
            *linear(f"{front}.input_proj_linear", hidden, second * c.integer("input_feat_size", 128) // 4),
        ),
        layer_weights=halves + attention + around,
        tower_prefix="model.audio_tower",
    )


FAMILIES: dict[str, Any] = {
    "aya_vision": aya_vision,
    "cohere2_vision": cohere2_vision,
    "gemma3n": gemma3n,
    "glm4v_moe": glm4v_moe,
    "kimi_k25": kimi_k25,
    "lfm2_vl": lfm2_vl,
    "muse_glimmer": muse_glimmer,
    "qwen3_omni_moe": qwen3_omni_moe,
    "qwen3_omni_moe_thinker": qwen3_omni_moe_thinker,
    "step3p7": step3p7,
}
