"""Llama 3.2 Vision and Llama 4."""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, layer, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families import (
    llama,
)
from memlint.architectures.families.composite import language_model, nested, projected, whole
from memlint.architectures.model import Architecture, DecoderLayer, Tower, Weight


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
    return towers.of_sizes(
        c,
        image_size=image,
        weights=outside,
        layer_weights=weights,
        tower_prefix="vision_model",
        layer_class="Llama4VisionEncoderLayer",
    )


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
    layer_weights = tuple(
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
        patch_size=c.integer("patch_size"),
        image_size=c.integer("image_size"),
        tokens_per_image=1,  # one placeholder in the text; cross-attention reads the image
        max_tiles=c.integer("max_num_tiles"),
        weights=_mllama_outside_layers(c, hidden),
        layer_weights=layer_weights,
        tower_prefix="model.vision_model",
    )
    gates = (Weight("gate_attn", (1,), "other"), Weight("gate_ffn", (1,), "other"))
    end = tower._replace(
        layers=c.layers("num_global_layers"),
        weights=(),
        layer_weights=layer_weights + gates,
        tower_prefix="model.vision_model.global_transformer",
    )
    return tower, end


def _mllama_outside_layers(c: ModelConfig, hidden: int) -> Weights:
    """What embeds patches and tiles, and the norms around the layers."""
    patch, tiles = c.integer("patch_size"), c.integer("max_num_tiles")
    positions = (c.integer("image_size") // patch) ** 2 + 1
    ratios = (len(c.items("supported_aspect_ratios")) or 8) + 1
    around_layers: Weights = ()
    for name in ("pre_tile_positional_embedding", "post_tile_positional_embedding"):
        around_layers += (
            Weight(f"{name}.gate", (1,), "other"),
            Weight(f"{name}.embedding.weight", (ratios, tiles * hidden), "position"),
        )
    name = "gated_positional_embedding"
    return (
        Weight("class_embedding", (hidden,), "embedding"),
        Weight("patch_embedding.weight", (hidden, c.integer("num_channels", 3), patch, patch), "conv"),
        Weight(f"{name}.gate", (1,), "other"),
        Weight(f"{name}.embedding", (positions, hidden), "position"),
        Weight(f"{name}.tile_embedding.weight", (ratios, tiles * positions * hidden), "position"),
        *around_layers,
        *norms(hidden, "layernorm_pre", "layernorm_post", bias=True),
    )


FAMILIES = {
    "mllama": mllama,
    "llama4": llama4,
}
