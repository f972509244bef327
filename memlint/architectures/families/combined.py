"""Image-text and audio-text models that put a tower of one kind before a decoder of another family (2024 to 2026)."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import llama, qwen_vision
from memlint.architectures.families.composite import Build, language_model, nested, projected, whole
from memlint.architectures.model import Architecture, Tower, Weight


def video_llama_3(c: ModelConfig) -> Architecture:
    """VideoLLaMA 3: SigLIP with rotary positions, for images of any shape, before Qwen2."""
    text = language_model(c, "qwen2")
    tower = towers.idefics(nested(c, "vision_config"), "model.vision_model")
    kept = tuple(one for one in tower.weights if not one.name.startswith("embeddings.position_embedding"))
    weights = (
        *linear("readout.0", text.hidden_size, tower.hidden_size, True),
        *linear("readout.2", text.hidden_size, text.hidden_size, True),
    )
    seen = tower._replace(weights=kept, layer_class="", image_size=0)
    return whole(c, "VideoLlama3ForConditionalGeneration", text, projected(seen, weights, "model.projector"))


def lfm3_vl(c: ModelConfig) -> Architecture:
    """LFM3-VL: convolutions and attention over patches, before LFM3."""
    text = language_model(c, "lfm3")
    vision = nested(c, "vision_config")
    merge, inner, bias = (
        vision.integer("spatial_merge_size", 2),
        c.integer("projector_hidden_size"),
        c.flag("projector_bias", True),
    )
    tower = _lfm3_tower(vision, merge)
    weights = (
        *norm("layer_norm", tower.hidden_size, True),
        *linear("linear_1", inner, tower.hidden_size * merge**2, bias),
        *linear("linear_2", text.hidden_size, inner, bias),
    )
    return whole(c, "Lfm3VlForConditionalGeneration", text, projected(tower, weights))


def _lfm3_tower(c: ModelConfig, merge: int) -> Tower:
    hidden, inner, patch = (c.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    heads, kernel, depth = c.integer("num_attention_heads"), c.integer("conv_kernel_size", 3), c.layers()
    kv = c.integer("num_key_value_heads", heads) * (hidden // heads)
    kinds = [str(kind) for kind in c.items("layer_types")] or ["conv"] * 8 + ["full_attention"] * max(0, depth - 8)
    attention = (
        *linear("self_attn.q_proj", hidden, hidden),
        *linear("self_attn.k_proj", kv, hidden),
        *linear("self_attn.v_proj", kv, hidden),
        *linear("self_attn.out_proj", hidden, hidden),
        *norms(hidden // heads, "self_attn.q_norm", "self_attn.k_norm"),
    )
    convolution = (
        *linear("conv.in_proj", 3 * hidden, hidden),
        Weight("conv.spatial_conv.weight", (hidden, 1, kernel, kernel), "conv"),
        *linear("conv.out_proj", hidden, hidden),
    )
    mixers: Weights = ()
    for index, kind in enumerate(kinds[:depth]):
        own = convolution if kind == "conv" else attention
        mixers += tuple(one._replace(name=f"layers.{index}.{one.name}") for one in own)
    return towers.of_sizes(
        c,
        mlp="gated",
        norm="rms",
        merge_size=merge,
        weights=(
            Weight("patch_embed.weight", (hidden, 2 * c.integer("in_channels", 3) * patch**2), "linear"),
            *norm("embedding_norm", hidden),
            *mixers,
        ),
        layer_weights=(
            *linear("feed_forward.w1", inner, hidden),
            *linear("feed_forward.w3", inner, hidden),
            *linear("feed_forward.w2", hidden, inner),
            *norms(hidden, "operator_norm", "ffn_norm"),
        ),
        tower_prefix="model.vision_tower",
        activation="silu",
    )


def granite_docling(c: ModelConfig) -> Architecture:
    """Granite-Docling: SigLIP, and a connector whose mergers feed several layers of Granite."""
    text = language_model(c, "granite", prefix="model.text_model.", layer_class="GraniteDoclingTextDecoderLayer")
    vision = nested(c, "vision_config")
    tower = towers.idefics(vision, "model.vision_model")
    hidden, out, scale = tower.hidden_size, vision.integer("out_hidden_size"), vision.integer("scale_factor", 4)
    mergers = len(vision.items("deepstack_visual_indexes") or (0, 0, 0))
    weights = norm("ln_in", hidden, True)
    for name, factor in (("coarse", scale), ("fine", scale // 2)):
        if name == "coarse" or vision.flag("use_fine_route", True):
            weights += _docling_route(name, out, hidden * factor**2, mergers)
    weights += (*norm("ln_mid", out, True), *linear("mlp_fc2", out, out), *norm("ln_out", out, True))
    seen = projected(tower, weights, "model.vision_model.connector", merge_size=scale)
    return whole(c, "GraniteDoclingForConditionalGeneration", text, seen._replace(layer_class=""))


def _docling_route(name: str, out: int, wide: int, mergers: int) -> Weights:
    weights = linear(f"{name}.projection", out, wide)
    for index in range(mergers):
        prefix = f"{name}.deepstack_mergers.{index}"
        weights += norm(f"{prefix}.layer_norm", wide, True)
        weights += linear(f"{prefix}.linear_1", out, wide, True) + linear(f"{prefix}.linear_2", out, out, True)
    return weights


def sam(c: ModelConfig, prefix: str) -> Tower:
    """Segment Anything's encoder: attention in windows but for some layers, with positions of its own in each."""
    hidden, patch, image = c.integer("hidden_size"), towers.side(c, "patch_size"), towers.side(c, "image_size")
    inner = c.integer("mlp_dim", int(hidden * c.number("mlp_ratio", 4.0)))
    grid, window = image // patch, c.integer("window_size", 14)
    whole_image = {int(index) for index in c.items("global_attn_indexes") or (2, 5, 8, 11)}
    dim, out, depth = hidden // c.integer("num_attention_heads"), c.integer("output_channels", 256), c.layers()
    positions: Weights = ()
    if c.flag("use_rel_pos", True):
        for index in range(depth):
            rows = 2 * (grid if index in whole_image else window) - 1
            positions += tuple(
                Weight(f"layers.{index}.attn.rel_pos_{axis}", (rows, dim), "position") for axis in ("h", "w")
            )
    table = (Weight("pos_embed", (1, grid, grid, hidden), "position"),) if c.flag("use_abs_pos", True) else ()
    return Tower(
        kind="vision",
        hidden_size=hidden,
        layers=depth,
        heads=c.integer("num_attention_heads"),
        intermediate_size=inner,
        patch_size=patch,
        image_size=image,
        weights=(
            *table,
            Weight("patch_embed.projection.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
            Weight("patch_embed.projection.bias", (hidden,), "bias"),
            *positions,
            *_sam_neck("neck", hidden, out),
        ),
        layer_weights=(
            *norms(hidden, "layer_norm1", "layer_norm2", bias=True),
            *linear("attn.qkv", 3 * hidden, hidden, c.flag("qkv_bias", True)),
            *linear("attn.proj", hidden, hidden, True),
            *linear("mlp.lin1", inner, hidden, True),
            *linear("mlp.lin2", hidden, inner, True),
        ),
        tower_prefix=prefix,
        activation=c.text("hidden_act", "gelu"),
    )


def _sam_neck(prefix: str, hidden: int, out: int) -> Weights:
    return (
        Weight(f"{prefix}.conv1.weight", (out, hidden, 1, 1), "conv"),
        *norm(f"{prefix}.layer_norm1", out, True),
        Weight(f"{prefix}.conv2.weight", (out, out, 3, 3), "conv"),
        *norm(f"{prefix}.layer_norm2", out, True),
    )


def got_ocr2(c: ModelConfig) -> Architecture:
    """GOT-OCR 2: Segment Anything's encoder before Qwen2."""
    text = language_model(c, "qwen2")
    vision = nested(c, "vision_config")
    tower, out = sam(vision, "model.vision_tower"), vision.integer("output_channels", 256)
    weights = (
        Weight("conv_upsampler1.weight", (2 * out, out, 3, 3), "conv"),
        Weight("conv_upsampler2.weight", (text.hidden_size, 2 * out, 3, 3), "conv"),
        *linear("multimodal_projector", text.hidden_size, text.hidden_size, True),
    )
    seen = projected(tower, weights, tokens_per_image=c.integer("image_seq_length", 256))
    return whole(c, "GotOcr2ForConditionalGeneration", text, seen)


def deepseek_vl_hybrid(c: ModelConfig) -> Architecture:
    """DeepSeek-VL 7B: SigLIP for the image and Segment Anything's encoder for more of its pixels, before Llama."""
    text = language_model(c, "llama")
    tower = towers.by_type(nested(c, "vision_config", "siglip_vision_model"), "model.vision_model")
    wide = text.hidden_size
    fine = nested(c, "high_res_vision_config", "sam_vision_model")
    detailed, out = sam(fine, "model.high_res_vision_model.vision_encoder"), fine.integer("output_channels", 256)
    aligner = (
        *linear("vision_proj", wide // 2, tower.hidden_size, True),
        *linear("high_res_vision_proj", wide // 2, 4 * out, True),
        *linear("proj", wide, wide, True),
    )
    extra = (
        Weight("model.high_res_vision_alpha", (1,), "other"),
        *_sam_neck("model.high_res_vision_neck", detailed.hidden_size, out),
        Weight("model.high_res_vision_proj.conv1.weight", (2 * out, out, 3, 3), "conv"),
        Weight("model.high_res_vision_proj.conv2.weight", (4 * out, 2 * out, 3, 3), "conv"),
    )
    tokens = (tower.image_size // tower.patch_size) ** 2
    seen = projected(tower._replace(layer_class=""), aligner, "model.aligner", tokens_per_image=tokens)
    name = "DeepseekVLHybridForConditionalGeneration"
    return whole(c, name, text, seen, detailed._replace(tokens_per_image=tokens), extra=extra)


def glmasr(c: ModelConfig) -> Architecture:
    """GLM-ASR: Whisper's layers with rotary positions, four frames a token, before Llama."""
    text = language_model(c, "llama")
    audio = nested(c, "audio_config", "glmasr_encoder")
    hidden, inner, bins = (audio.integer(name) for name in ("hidden_size", "intermediate_size", "num_mel_bins"))
    heads = audio.integer("num_attention_heads")
    kv = audio.integer("num_key_value_heads", heads) * (hidden // heads)
    tower = Tower(
        kind="audio",
        hidden_size=hidden,
        layers=audio.layers(),
        heads=heads,
        intermediate_size=inner,
        patch_size=1,
        tokens_per_image=375,
        weights=(
            Weight("conv1.weight", (hidden, bins, 3), "conv"),
            Weight("conv1.bias", (hidden,), "bias"),
            Weight("conv2.weight", (hidden, hidden, 3), "conv"),
            Weight("conv2.bias", (hidden,), "bias"),
            *norm("norm", hidden, True),
        ),
        layer_weights=(
            *linear("self_attn.q_proj", hidden, hidden, True),
            *linear("self_attn.k_proj", kv, hidden),
            *linear("self_attn.v_proj", kv, hidden, True),
            *linear("self_attn.o_proj", hidden, hidden, True),
            *linear("mlp.fc1", inner, hidden, True),
            *linear("mlp.fc2", hidden, inner, True),
            *norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
        ),
        tower_prefix="model.audio_tower",
    )
    wide = 2 * text.hidden_size
    weights = linear("linear_1", wide, inner, True) + linear("linear_2", text.hidden_size, wide, True)
    return whole(c, "GlmAsrForConditionalGeneration", text, projected(tower, weights))


def aria(c: ModelConfig) -> Architecture:
    """Aria: SigLIP, queries that attend to patches, and a mixture of experts."""
    text = language_model(c, "aria_text")
    tower = towers.idefics(nested(c, "vision_config", "idefics3_vision"), "model.vision_tower")
    hidden, queries = tower.hidden_size, c.mapping("projector_patch_to_query_dict").values()
    count = max([int(value) for value in queries if isinstance(value, (int, str))] or [256])
    own = text.hidden_size
    inside = nested(c, "text_config", "aria_text").integer("hidden_size")
    weights = (
        Weight("query", (count, hidden), "other"),
        *(one for name in "qkv" for one in linear(f"cross_attn.{name}_proj", hidden, hidden)),
        Weight("cross_attn.multihead_attn.in_proj_weight", (3 * hidden, hidden), "linear"),
        Weight("cross_attn.multihead_attn.in_proj_bias", (3 * hidden,), "bias"),
        *linear("cross_attn.multihead_attn.out_proj", hidden, hidden, True),
        *linear("cross_attn.linear", hidden, hidden, True),
        *norms(hidden, "cross_attn.layer_norm", "cross_attn.layer_norm_kv", "layer_norm", bias=True),
        *linear("feed_forward.linear_in", inside, hidden),
        *linear("feed_forward.linear_out", own, inside),
    )
    seen = projected(tower, weights, tokens_per_image=count, layer_class="")
    return whole(c, "AriaForConditionalGeneration", text, seen)


def molmo2(c: ModelConfig) -> Architecture:
    """Molmo 2: a vision transformer of which two layers are read, pooled by attention, before Qwen3's layers."""
    text = language_model(c, "molmo2_text")
    adapter = nested(c, "adapter_config")
    layers = adapter.items("vision_feature_layer") or adapter.items("vit_layers") or [-3, -9]
    tower = _molmo2_tower(nested(c, "vision_config"))
    if not c.mapping("vision_config") and c.mapping("vit_config"):
        tower = _published_molmo2_tower(c, [int(layer) for layer in layers])
    hidden, read = adapter.integer("hidden_size"), len(layers)
    heads, dim = adapter.integer("num_attention_heads"), adapter.integer("head_dim")
    kv, bias = adapter.integer("num_key_value_heads", heads), adapter.flag("attention_bias", True)
    wide = read * hidden
    weights = (
        *linear("image_pooling_2d.q_proj", heads * dim, wide, bias),
        *linear("image_pooling_2d.k_proj", kv * dim, wide, bias),
        *linear("image_pooling_2d.v_proj", kv * dim, wide, bias),
        *linear("image_pooling_2d.o_proj", hidden, heads * dim, True),
        *_gated_to(adapter, "image_projector", hidden),
    )
    return whole(c, "Molmo2ForConditionalGeneration", text, projected(tower, weights))


def _published_molmo2_tower(c: ModelConfig, read: list[int]) -> Tower:
    """The tower of a published configuration, under other names; its layers end at the last one that is read
    (configuration_molmo2.py, Molmo2Config.__post_init__)."""
    names = {"image_num_pos": "num_position_embeddings", "image_patch_size": "patch_size"}
    names["image_default_input_size"] = "image_size"
    values = {names.get(name, name): value for name, value in c.mapping("vit_config").items()}
    tower = _molmo2_tower(defaulted(values, f"{c.family}/vision_config"))
    return tower._replace(layers=max(layer % tower.layers for layer in read) + 1)


def _gated_to(c: ModelConfig, prefix: str, inside: int) -> Weights:
    inner, out, bias = c.integer("intermediate_size"), c.integer("text_hidden_size"), c.flag("mlp_bias")
    return (
        *linear(f"{prefix}.gate_proj", inner, inside, bias),
        *linear(f"{prefix}.up_proj", inner, inside, bias),
        *linear(f"{prefix}.down_proj", out, inner, bias),
    )


def _molmo2_tower(c: ModelConfig) -> Tower:
    hidden, inner, patch = (c.integer(name) for name in ("hidden_size", "intermediate_size", "patch_size"))
    heads, dim, bias = c.integer("num_attention_heads"), c.integer("head_dim"), c.flag("attention_bias", True)
    kv = c.integer("num_key_value_heads", heads)
    sides = [int(side) for side in c.items("image_size") if isinstance(side, int)] or [378, 378]
    places = c.integer("num_position_embeddings", (sides[0] // patch) * (sides[-1] // patch))
    return towers.of_sizes(
        c,
        image_size=max(sides),
        merge_size=2,
        weights=(
            Weight("positional_embedding", (places, hidden), "position"),
            *linear("patch_embedding", hidden, c.integer("num_channels", 3) * patch**2, True),
        ),
        layer_weights=(
            *norms(hidden, "layer_norm1", "layer_norm2", bias=True),
            *linear("self_attn.q_proj", heads * dim, hidden, bias),
            *linear("self_attn.k_proj", kv * dim, hidden, bias),
            *linear("self_attn.v_proj", kv * dim, hidden, bias),
            *linear("self_attn.o_proj", hidden, heads * dim, bias),
            *linear("mlp.fc1", inner, hidden, True),
            *linear("mlp.fc2", hidden, inner, True),
        ),
        tower_prefix="model.vision_tower",
        activation=c.text("hidden_act", "gelu_pytorch_tanh"),
    )


def deepseek_ocr2(c: ModelConfig) -> Architecture:
    """DeepSeek-OCR 2: Segment Anything's encoder, then a decoder whose queries read the image, before a mixture."""
    text = language_model(c, "deepseek_ocr2_text")
    vision = nested(c, "vision_config")
    own, reader = defaulted(vision.mapping("sam_config"), f"{c.family}/vision_config/sam_config"), _reader(c, vision)
    pixels, out = sam(own, "model.vision_tower.sam_encoder"), own.integer("output_channels", 256)
    narrow, wide = (int(size) for size in own.items("downsample_channels") or (512, 896))
    pixels = pixels._replace(
        weights=(
            *pixels.weights,
            Weight("proj.conv1.weight", (narrow, out, 3, 3), "conv"),
            Weight("proj.conv2.weight", (wide, narrow, 3, 3), "conv"),
        ),
        tokens_per_image=256,
    )
    hidden = reader.hidden_size
    extra = (
        Weight("model.view_separator", (text.hidden_size,), "other"),
        Weight("model.vision_tower.query_768_resolution.weight", (144, hidden), "other"),
        Weight("model.vision_tower.query_1024_resolution.weight", (256, hidden), "other"),
    )
    seen = projected(
        reader,
        (
            Weight("weight", (text.hidden_size, hidden), "linear"),
            Weight("bias", (text.hidden_size,), "bias"),
        ),
        tokens_per_image=256,
    )
    return whole(c, "DeepseekOcr2ForConditionalGeneration", text, seen, pixels, extra=extra)


def _reader(c: ModelConfig, vision: ModelConfig) -> Tower:
    """Qwen2's layers, which read patches and learned queries."""
    own = defaulted(vision.mapping("encoder_config"), f"{c.family}/vision_config/encoder_config")
    layers = llama.qwen2(ModelConfig({**own.values}, "qwen2", own.defaults, own.aliases)).layer_types[0]
    return towers.of_sizes(
        ModelConfig({**own.values, "patch_size": 16}, own.family, own.defaults, own.aliases),
        mlp="gated",
        norm="rms",
        image_size=1024,
        weights=norm("norm", own.integer("hidden_size")),
        layer_weights=layers.weights,
        tower_prefix="model.vision_tower.vision_encoder",
        activation="silu",
    )


def granite4_vision(c: ModelConfig) -> Architecture:
    """Granite 4 Vision: SigLIP, and windows of patches that queries read, for several layers of Granite."""
    text = language_model(c, "granite", layer_class="Granite4VisionTextDecoderLayer")
    tower = towers.by_type(nested(c, "vision_config", "clip_vision_model"), "model.vision_tower")
    queries, window = (int(side) for side in c.text("downsample_rate").split("/"))
    reader, layers = nested(c, "qformer_config", "blip_2_qformer"), len(c.items("deepstack_layer_map"))

    def readers(count: int) -> Weights:
        found: Weights = ()
        for index in range(count):
            found += (
                Weight(f"{index}.query", (1, queries**2, tower.hidden_size), "other"),
                Weight(f"{index}.image_positions", (1, window**2, tower.hidden_size), "position"),
                *_qformer(reader, f"{index}.qformer", tower.hidden_size),
                *norm(f"{index}.norm", tower.hidden_size, True),
                *linear(f"{index}.out_linear", text.hidden_size, tower.hidden_size, True),
            )
        return found

    newline = Weight("model.image_newline", (text.hidden_size,), "other")
    tokens = (tower.image_size // tower.patch_size * queries // window) ** 2
    tower = tower._replace(tokens_per_image=tokens, max_tiles=5, layer_class="")
    seen = projected(tower, readers(layers), "model.layerwise_projectors")
    corners = tower._replace(layers=0, weights=(), layer_weights=(), tower_prefix="model.spatial_projectors")
    corners = projected(corners, readers(4), "model.spatial_projectors")
    return whole(c, "Granite4VisionForConditionalGeneration", text, seen, corners, extra=(newline,))


def _qformer(c: ModelConfig, prefix: str, hidden: int) -> Weights:
    """BLIP-2's layers of queries, which attend to each other and to an encoder as wide as they are."""
    inner = c.integer("intermediate_size", 3072)
    found = norm(f"{prefix}.layernorm", hidden, True)
    for index in range(c.integer("num_hidden_layers", 12 if c.values else 1)):
        name = f"{prefix}.encoder.layer.{index}"
        for block in ("attention", "crossattention"):
            for part in ("query", "key", "value"):
                found += linear(f"{name}.{block}.attention.{part}", hidden, hidden, True)
            found += linear(f"{name}.{block}.output.dense", hidden, hidden, True)
            found += norm(f"{name}.{block}.output.LayerNorm", hidden, True)
        found += linear(f"{name}.intermediate_query.dense", inner, hidden, True)
        found += linear(f"{name}.output_query.dense", hidden, inner, True)
        found += norm(f"{name}.output_query.LayerNorm", hidden, True)
    return found


def cohere_compass(c: ModelConfig) -> Architecture:
    """Cohere Compass: Qwen3-VL's tower before Cohere 2's layers."""
    text = language_model(c, "cohere_compass_text")
    return whole(c, "CohereCompassForConditionalGeneration", text, qwen_vision.qwen3(nested(c, "vision_config")))


def fuyu(c: ModelConfig) -> Architecture:
    """Fuyu: patches of pixels are projected to Persimmon's embedding."""
    text = language_model(c, "persimmon")
    patch = c.integer("patch_size", 30)
    inside = c.integer("num_channels", 3) * patch**2
    pixels = Tower("vision", inside, 0, 1, 0, patch_size=patch, tower_prefix="model.vision_embed_tokens")
    weights = Weight("weight", (text.hidden_size, inside), "linear"), Weight("bias", (text.hidden_size,), "bias")
    return whole(c, "FuyuForCausalLM", text, projected(pixels, weights, "model.vision_embed_tokens"))


FAMILIES: dict[str, Build] = {
    "cohere_compass": cohere_compass,
    "video_llama_3": video_llama_3,
    "lfm3_vl": lfm3_vl,
    "granite_docling": granite_docling,
    "got_ocr2": got_ocr2,
    "deepseek_vl_hybrid": deepseek_vl_hybrid,
    "glmasr": glmasr,
    "aria": aria,
    "molmo2": molmo2,
    "deepseek_ocr2": deepseek_ocr2,
    "granite4_vision": granite4_vision,
    "fuyu": fuyu,
}
