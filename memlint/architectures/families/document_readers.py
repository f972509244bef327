"""Image-text models that read documents and films: towers of other families in new company (2024 to 2026)."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, gated, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import qwen_vision
from memlint.architectures.families.composite import Build, language_model, nested, projected, whole
from memlint.architectures.families.multimodal import glm4v, glm_tower, internvl, llava
from memlint.architectures.families.vision_language import omni_audio
from memlint.architectures.model import Architecture, Tower, Weight


def paddleocr_vl(c: ModelConfig) -> Architecture:
    """PaddleOCR-VL: SigLIP with rotary embeddings, patches merged 2 x 2, before ERNIE 4.5."""
    text = language_model(c, "ernie4_5", layer_class="PaddleOCRDecoderLayer")
    vision = nested(c, "vision_config")
    tower = towers.idefics(vision, "model.visual.vision_model")
    merge = vision.integer("spatial_merge_size", 2)
    wide = tower.hidden_size * merge**2
    weights = (
        norm("pre_norm", tower.hidden_size, True)
        + linear("linear_1", wide, wide, True)
        + linear("linear_2", text.hidden_size, wide, True)
    )
    tower = tower._replace(layer_class="", image_size=0, merge_size=merge)
    return whole(c, "PaddleOCRVLForConditionalGeneration", text, projected(tower, weights, "model.projector"))


def glm_ocr(c: ModelConfig) -> Architecture:
    """GLM-OCR: GLM-4V's tower with biases, normed queries and keys and no table of positions, before GLM-4."""
    text = language_model(c, "glm4", layer_class="GlmOcrTextDecoderLayer")
    vision = nested(c, "vision_config")
    hidden, out, inner = (vision.integer(name) for name in ("hidden_size", "out_hidden_size", "intermediate_size"))
    built, bias = glm_tower(vision), vision.flag("attention_bias")
    layer_weights = (
        *norms(hidden, "norm1", "norm2"),
        *linear("attn.qkv", 3 * hidden, hidden, bias),
        *linear("attn.proj", hidden, hidden, bias),
        *norms(hidden // built.heads, "attn.q_norm", "attn.k_norm"),
        *linear("mlp.gate_proj", inner, hidden, bias),
        *linear("mlp.up_proj", inner, hidden, bias),
        *linear("mlp.down_proj", hidden, inner, bias),
    )
    wide = out * vision.integer("in_channels", 3)
    tower = built._replace(
        intermediate_size=inner,
        weights=tuple(one for one in built.weights if not one.name.startswith(("embeddings.", "post_conv"))),
        layer_weights=layer_weights,
        projector_weights=(
            *linear("proj", out, out),
            *norm("post_projection_norm", out, True),
            *linear("gate_proj", wide, out),
            *linear("up_proj", wide, out),
            *linear("down_proj", out, wide),
        ),
        layer_class="",
    )
    return whole(c, "GlmOcrForConditionalGeneration", text, tower)


def glm46v(c: ModelConfig) -> Architecture:
    """GLM-4.6V-Flash and Glmga: GLM-4V under another name (transformers 5.23 models/auto/modeling_auto.py:1194)."""
    built = glm4v(defaulted(c.values, "glm4v"))
    return built._replace(family=c.family, class_name="Glm46VForConditionalGeneration")


def lighton_ocr(c: ModelConfig) -> Architecture:
    """LightOnOCR: Pixtral's tower and Mistral 3's projector before Qwen3."""
    text = language_model(c, "qwen3")
    tower = towers.by_type(nested(c, "vision_config", "pixtral"), "model.vision_encoder")
    merge, hidden = c.integer("spatial_merge_size", 2), tower.hidden_size
    weights = (
        norm("norm", hidden)
        + linear("patch_merger.merging_layer", hidden, hidden * merge**2)
        + linear("linear_1", text.hidden_size, hidden)
        + linear("linear_2", text.hidden_size, text.hidden_size)
    )
    seen = projected(tower, weights, "model.vision_projection", merge_size=merge)
    return whole(c, "LightOnOcrForConditionalGeneration", text, seen)


def video_llava(c: ModelConfig) -> Architecture:
    """Video-LLaVA: one CLIP for images and one for films, of one shape."""
    built = llava(c)
    tower = built.towers[0]._replace(tower_prefix="model.image_tower")
    films = tower._replace(tower_prefix="model.video_tower", projector_weights=())
    return built._replace(class_name="VideoLlavaForConditionalGeneration", towers=(tower, films))


def exaone4_5(c: ModelConfig) -> Architecture:
    """EXAONE 4.5: Qwen2.5-VL's tower with fewer keys than queries before EXAONE 4."""
    text = language_model(c, "exaone4")
    vision = nested(c, "vision_config")
    tower = qwen_vision.qwen2_5(vision)
    heads, kv = tower.heads, vision.integer("num_key_value_heads", tower.heads)
    wide = tower.hidden_size + 2 * kv * (tower.hidden_size // heads)
    rest = tuple(one for one in tower.layer_weights if not one.name.startswith("attn.qkv"))
    layer_weights = (*linear("attn.qkv", wide, tower.hidden_size, True), *rest)
    seen = tower._replace(layer_weights=layer_weights, layer_class="")
    return whole(c, "Exaone4_5_ForConditionalGeneration", text, seen)


def hyperclovax_vision_v2(c: ModelConfig) -> Architecture:
    """HyperCLOVA X SEED Vision: Qwen2.5-VL's tower, a linear layer, HyperCLOVA X."""
    text = language_model(c, "hyperclovax")
    tower = qwen_vision.qwen2_5(nested(c, "vision_config"), "model.vision_model")
    merger = tuple(one._replace(name=f"merger.{one.name}") for one in tower.projector_weights)
    size = (text.hidden_size, nested(c, "vision_config").integer("out_hidden_size"))
    weights = (Weight("weight", size, "linear"), Weight("bias", size[:1], "bias"))
    seen = tower._replace(weights=(*tower.weights, *merger), layer_class="")
    return whole(c, "HyperCLOVAXVisionV2ForConditionalGeneration", text, projected(seen, weights, "model.projector"))


def idefics2(c: ModelConfig) -> Architecture:
    """Idefics 2: SigLIP without head, a gated projection and a perceiver of few latents before Mistral."""
    text = language_model(c, "mistral", prefix="model.text_model.")
    tower = towers.idefics(nested(c, "vision_config"), "model.vision_model")
    perceiver = nested(c, "perceiver_config")
    latents = perceiver.integer("resampler_n_latents", 64)
    inner = nested(c, "text_config", "mistral").integer("intermediate_size")
    weights = (
        *linear("modality_projection.gate_proj", inner, tower.hidden_size),
        *linear("modality_projection.up_proj", inner, tower.hidden_size),
        *linear("modality_projection.down_proj", text.hidden_size, inner),
        *_perceiver(perceiver, latents),
    )
    seen = projected(tower, weights, "model.connector", tokens_per_image=latents, max_tiles=5)
    return whole(c, "Idefics2ForConditionalGeneration", text, seen)


def _perceiver(c: ModelConfig, latents: int) -> Weights:
    hidden, dim = c.integer("hidden_size", 4096), c.integer("resampler_head_dim", 96)
    heads, kv = c.integer("resampler_n_heads", 16), c.integer("num_key_value_heads", 4)
    found: Weights = (
        Weight("perceiver_resampler.latents", (latents, hidden), "other"),
        *norm("perceiver_resampler.norm", hidden),
    )
    for index in range(c.layers("resampler_depth")):
        prefix = f"perceiver_resampler.layers.{index}"
        found += (
            *norms(hidden, *(f"{prefix}.{name}" for name in _PERCEIVER_NORMS)),
            *linear(f"{prefix}.self_attn.q_proj", heads * dim, hidden),
            *linear(f"{prefix}.self_attn.k_proj", kv * dim, hidden),
            *linear(f"{prefix}.self_attn.v_proj", kv * dim, hidden),
            *linear(f"{prefix}.self_attn.o_proj", hidden, heads * dim),
            *gated(c, prefix=f"{prefix}.mlp", size=4 * hidden)[1],
        )
    return found


_PERCEIVER_NORMS = ("input_latents_norm", "input_context_norm", "post_attention_layernorm")


_MINICPM_CLASSES = {
    "minicpmv4_6": "MiniCPMV4_6ForConditionalGeneration",
    "minicpmv4_7": "MiniCPMV4_7ForConditionalGeneration",
    "minicpm_ocr": "MiniCPMOcrForConditionalGeneration",
}


def minicpmv4_6(c: ModelConfig) -> Architecture:
    """MiniCPM-V 4.6 and 4.7, MiniCPM-OCR: SigLIP with a merger of windows amid its layers, before Qwen3.5."""
    text = language_model(c, "qwen3_5_text")
    vision = nested(c, "vision_config")
    tower = towers.idefics(vision, "model.vision_tower")
    seen = tower._replace(weights=(*tower.weights, *_window_merger(vision)), merge_size=4, image_size=0, layer_class="")
    height, width = (int(side) for side in c.items("merge_kernel_size") or (2, 2))
    wide = tower.hidden_size * height * width
    weights: Weights = ()
    for index in range(times := c.integer("merger_times", 1)):
        out = text.hidden_size if index == times - 1 else tower.hidden_size
        weights += norm(f"mlp.{index}.pre_norm", wide, True)
        weights += linear(f"mlp.{index}.linear_1", wide, wide, True)
        weights += linear(f"mlp.{index}.linear_2", out, wide, True)
    return whole(c, _MINICPM_CLASSES[c.family], text, projected(seen, weights, "model.merger"))


def _window_merger(c: ModelConfig) -> Weights:
    """MiniCPMV4_6ViTWindowAttentionMerger: 4 patches become one."""
    hidden, inner = c.integer("hidden_size"), c.integer("intermediate_size")
    return (
        *(
            weight
            for name in ("k_proj", "v_proj", "q_proj", "out_proj")
            for weight in linear(f"vit_merger.self_attn.{name}", hidden, hidden, True)
        ),
        *norm("vit_merger.layer_norm1", hidden, True),
        *norm("vit_merger.pre_norm", 4 * hidden, True),
        *linear("vit_merger.linear_1", 4 * inner, 4 * hidden, True),
        *linear("vit_merger.linear_2", hidden, 4 * inner, True),
    )


def qianfan_ocr(c: ModelConfig) -> Architecture:
    """Qianfan-OCR: InternVL's tower and projector before Qwen3."""
    text = language_model(c, "qwen3")
    built = internvl(c)
    (tower,) = built.towers
    return whole(c, "QianfanOCRForConditionalGeneration", text, tower._replace(layer_class=""))


def deepseek_vl(c: ModelConfig) -> Architecture:
    """DeepSeek-VL: SigLIP and two linears before Llama."""
    text = language_model(c, "llama")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_model")
    wide = text.hidden_size
    weights = linear("linear1", wide, tower.hidden_size, True) + linear("linear2", wide, wide, True)
    tokens = (tower.image_size // tower.patch_size) ** 2
    seen = projected(tower, weights, "model.aligner", tokens_per_image=tokens)
    return whole(c, "DeepseekVLForConditionalGeneration", text, seen)


def ovis2(c: ModelConfig) -> Architecture:
    """Ovis 2: AIMv2, whose patches choose among visual words with an embedding of their own, before Qwen2."""
    text, vision = language_model(c, "qwen2"), nested(c, "vision_config")
    hidden, inner, patch = (vision.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    stride, words = vision.integer("hidden_stride", 1), vision.integer("vocab_size")
    image, kept = towers.side(vision, "image_size"), words - vision.integer("num_visual_indicator_tokens", 5)
    bias = vision.flag("qkv_bias")
    tower = towers.of_sizes(
        vision,
        mlp="gated",
        norm="rms",
        image_size=image,
        tokens_per_image=(image // patch // stride) ** 2,
        weights=(
            Weight(
                "embeddings.patch_embedding.weight", (hidden, vision.integer("num_channels", 3), patch, patch), "conv"
            ),
            Weight("embeddings.patch_embedding.bias", (hidden,), "bias"),
            Weight("embeddings.position_embedding.weight", ((image // patch) ** 2, hidden), "position"),
            *norms(hidden, "embeddings.rms_norm", "rms_norm"),
        ),
        layer_weights=(
            *(w for name in ("k", "v", "q", "out") for w in linear(f"attention.{name}_proj", hidden, hidden, bias)),
            *(w for name in ("gate", "up") for w in linear(f"ffn.{name}_proj", inner, hidden, vision.flag("mlp_bias"))),
            *linear("ffn.down_proj", hidden, inner, vision.flag("mlp_bias")),
            *norms(hidden, "rms_norm1", "rms_norm2"),
        ),
        tower_prefix="model.vision_tower.transformer",
        activation=vision.text("hidden_act", "silu"),
    )
    head = linear("head_linear", kept, hidden * stride**2) + norm("head_norm", kept, True)
    table = Weight("model.visual_embeddings_table.weight", (words, text.hidden_size), "other")
    seen = projected(tower, head, "model.vision_tower")
    return whole(c, "Ovis2ForConditionalGeneration", text, seen, extra=(table,))


def hunyuan_vl(c: ModelConfig) -> Architecture:
    """HunyuanOCR: a vision transformer, patches merged by a convolution, before Hunyuan's dense model."""
    text = language_model(c, "hunyuan_v1_dense", layer_class="HunYuanVLDenseV1DecoderLayer")
    vision = nested(c, "vision_config")
    hidden, inner, patch = (vision.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    merge, out = vision.integer("spatial_merge_size", 2), vision.integer("text_hidden_size")
    places = (vision.integer("max_image_size", 2048) // patch) ** 2 + 1
    tower = towers.of_sizes(
        vision,
        merge_size=merge,
        weights=(
            Weight(
                "embeddings.patch_embedding.weight", (hidden, vision.integer("num_channels", 3), patch, patch), "conv"
            ),
            Weight("embeddings.patch_embedding.bias", (hidden,), "bias"),
            Weight("embeddings.position_embedding.weight", (places, hidden), "position"),
        ),
        layer_weights=towers.transformer_layer(hidden, inner, out="o_proj"),
        tower_prefix="model.vision_tower",
        activation=vision.text("hidden_act", "gelu"),
    )
    weights = (
        Weight("proj_conv.weight", (2 * hidden, hidden, merge, merge), "conv"),
        Weight("proj_conv.bias", (2 * hidden,), "bias"),
        Weight("proj_out.weight", (4 * hidden, 2 * hidden, 1, 1), "conv"),
        Weight("proj_out.bias", (4 * hidden,), "bias"),
        *linear("mlp", out, 4 * hidden, True),
        Weight("image_newline", (4 * hidden,), "other"),
        *(Weight(f"image_{name}", (out,), "other") for name in ("begin", "end", "sep")),
        *norm("before_rms", hidden),
        *norm("after_rms", out),
    )
    seen = projected(tower, weights, "model.vision_tower.patch_merger")
    return whole(c, "HunYuanVLForConditionalGeneration", text, seen)


def ernie4_5_vl_moe(c: ModelConfig) -> Architecture:
    """ERNIE 4.5 VL: Qwen2-VL's tower, a resampler, and a mixture whose image tokens have experts of their own."""
    text = language_model(c, "ernie4_5_vl_moe_text")
    vision = nested(c, "vision_config")
    hidden, inner, patch = (vision.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    tower = Tower(
        kind="vision",
        hidden_size=hidden,
        layers=vision.layers("depth"),
        heads=vision.integer("num_heads"),
        intermediate_size=inner,
        patch_size=patch,
        merge_size=vision.integer("spatial_merge_size", 2),
        weights=(
            *linear("patch_embed.proj", hidden, vision.integer("in_channels", 3) * patch**2),
            *norm("ln", hidden, True),
        ),
        layer_weights=(
            *norms(hidden, "norm1", "norm2", bias=True),
            *linear("attn.qkv", 3 * hidden, hidden, True),
            *linear("attn.proj", hidden, hidden, True),
            *linear("mlp.fc1", inner, hidden, True),
            *linear("mlp.fc2", hidden, inner, True),
        ),
        tower_prefix="model.vision_tower",
        activation=vision.text("hidden_act", "quick_gelu"),
    )
    wide = hidden * vision.integer("spatial_merge_size", 2) ** 2
    weights: Weights = ()
    for name, inside in (("spatial", wide), ("temporal", wide * vision.integer("temporal_merge_size", 2))):
        weights += linear(f"{name}_linear.fc1", wide, inside, True) + linear(f"{name}_linear.fc2", wide, wide, True)
        weights += norm(f"{name}_linear.ln", wide, True)
    weights += linear("mlp", text.hidden_size, wide, True) + norm("after_norm", text.hidden_size)
    seen = projected(tower, weights, "model.resampler_model")
    return whole(c, "Ernie4_5_VLMoeForConditionalGeneration", text, seen)


def qwen3_asr(c: ModelConfig) -> Architecture:
    """Qwen3-ASR: Qwen3-Omni's encoder of sounds and a projector of its own before Qwen3. The package that came with it
    (qwen-asr) nests all in `thinker_config`."""
    if c.mapping("thinker_config"):
        return qwen3_asr(ModelConfig(c.mapping("thinker_config"), c.family))
    text = language_model(c, "qwen3")
    audio = nested(c, "audio_config")
    tower = omni_audio(audio)
    hidden, out = tower.hidden_size, audio.integer("output_dim")
    weights = linear("linear_1", hidden, hidden, True) + linear("linear_2", out, hidden, True)
    return whole(c, "Qwen3ASRForConditionalGeneration", text, projected(tower, weights))


FAMILIES: dict[str, Build] = {
    "ernie4_5_vl_moe": ernie4_5_vl_moe,
    "hunyuan_vl": hunyuan_vl,
    "qwen3_asr": qwen3_asr,
    "exaone4_5": exaone4_5,
    "glm46v": glm46v,
    "glmga": glm46v,
    "glm_ocr": glm_ocr,
    "hyperclovax_vision_v2": hyperclovax_vision_v2,
    "idefics2": idefics2,
    "lighton_ocr": lighton_ocr,
    **dict.fromkeys(_MINICPM_CLASSES, minicpmv4_6),
    "qianfan_ocr": qianfan_ocr,
    "deepseek_vl": deepseek_vl,
    "ovis2": ovis2,
    "paddleocr_vl": paddleocr_vl,
    "video_llava": video_llava,
}
