"""Image-text models whose language model is an older one: Florence 2 (BART), BLIP-2 and InstructBLIP (OPT or T5).

The names are those of transformers 5.23. Florence 2's own repository calls some sizes of its tower otherwise.
"""

from __future__ import annotations

from memlint.architectures import towers
from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.defaults import defaulted
from memlint.architectures.families import encoders, pre_llama
from memlint.architectures.families.composite import Build, nested, projected, whole
from memlint.architectures.model import Architecture, Tower, Weight

_LANGUAGE_MODELS = {"opt": pre_llama.opt, "t5": encoders.t5, "bart": encoders.bart}


def florence2(c: ModelConfig) -> Architecture:
    """Florence 2: DaViT before BART's encoder. The head is tied, without BART's bias of logits."""
    text = _language_model(c, "bart", "model.language_model.", {"florence2_language": "bart"})
    vision = nested(c, "vision_config")
    sizes = [int(size) for size in vision.items("dim_embed") or vision.items("embed_dim")]
    width, places = sizes[-1], vision.integer("max_position_embeddings", 50)
    out = vision.integer("projection_dim")
    tower = _davit(vision, sizes)
    weights = (
        *linear("image_projection", out, width),
        *norm("image_proj_norm", out, True),
        Weight("image_position_embed.row_embeddings.weight", (places, width // 2), "position"),
        Weight("image_position_embed.column_embeddings.weight", (places, width - width // 2), "position"),
    )
    stack = "model.language_model.encoder.layers"
    found = whole(c, "Florence2ForConditionalGeneration", text, projected(tower, weights))
    return found._replace(stack=stack, tied_embeddings=c.flag("tie_word_embeddings", True))


def _language_model(
    c: ModelConfig, kind: str, prefix: str, other_names: dict[str, str] | None = None, key: str = "text_config"
) -> Architecture:
    """The language model of `text_config`, its tensors renamed. `other_names`: of model types in other repositories."""
    values = c.mapping(key)
    named = str(values.get("model_type") or kind)
    family = (other_names or {}).get(named, named)
    build = _LANGUAGE_MODELS.get(family)
    if build is None:
        raise UnsupportedConfig(f"no parameter shapes known for the language model `{family[:60]}`")
    built = build(defaulted({**values, "model_type": family}, family))
    moved = tuple(
        one._replace(
            name=prefix + one.name.removeprefix("model.") if prefix.startswith("model.") else prefix + one.name
        )
        for one in built.non_layer_weights
    )
    return built._replace(non_layer_weights=moved, stack=prefix + built.stack.removeprefix("model."))


def _davit(c: ModelConfig, sizes: list[int]) -> Tower:
    """Four stages of convolutions over patches, each with blocks that attend to windows and to channels."""
    depths, patches = ([int(number) for number in c.items(name)] for name in ("depths", "patch_size"))
    norms_first = [bool(flag) for flag in c.items("patch_prenorm")]
    inside = [c.integer("in_channels", 3), *sizes[:-1]]
    weights: Weights = ()
    for stage, (width, before, patch) in enumerate(zip(sizes, inside, patches, strict=True)):
        weights += _convolution(f"convs.{stage}.conv", width, before, patch)
        weights += norm(f"convs.{stage}.norm", before if norms_first[stage] else width, True)
        for depth in range(depths[stage]):
            name = f"blocks.{stage}.{depth}"
            weights += _davit_block(c, f"{name}.spatial_block", "window_attn", width)
            weights += _davit_block(c, f"{name}.channel_block", "channel_attn", width)
    return Tower("vision", sizes[-1], 0, 1, 0, weights=weights, tower_prefix="model.vision_tower", tokens_per_image=577)


def _davit_block(c: ModelConfig, name: str, attention: str, width: int) -> Weights:
    inner = int(c.number("mlp_ratio", 4.0) * width)
    return (
        *_convolution(f"{name}.conv1", width, 1, 3),
        *norm(f"{name}.norm1", width, True),
        *linear(f"{name}.{attention}.qkv", 3 * width, width, c.flag("qkv_bias", True)),
        *linear(f"{name}.{attention}.proj", width, width, True),
        *_convolution(f"{name}.conv2", width, 1, 3),
        *norm(f"{name}.norm2", width, True),
        *linear(f"{name}.ffn.fc1", inner, width, True),
        *linear(f"{name}.ffn.fc2", width, inner, True),
    )


def _convolution(name: str, out: int, inside: int, side: int) -> Weights:
    return Weight(f"{name}.weight", (out, inside, side, side), "conv"), Weight(f"{name}.bias", (out,), "bias")


def blip2(c: ModelConfig) -> Architecture:
    """BLIP-2: a vision transformer, queries that read it (Q-Former), and OPT or T5. InstructBLIP's queries read the
    instruction too."""
    text = _language_model(c, "opt", "language_model.")
    reads_words = c.family == "instructblip"
    vision, reader = nested(c, "vision_config"), nested(c, "qformer_config")
    hidden = reader.integer("hidden_size")
    count = c.integer("num_query_tokens", 32)
    extra = (
        Weight("query_tokens", (1, count, hidden), "other"),
        *linear("language_projection", text.hidden_size, hidden, True),
    )
    queries = Tower("vision", hidden, 0, 1, 0, weights=_queries(reader, reads_words), tower_prefix="qformer")
    seen = _blip_tower(vision)._replace(tokens_per_image=count)
    name = "InstructBlipForConditionalGeneration" if reads_words else "Blip2ForConditionalGeneration"
    return whole(c, name, text, seen, queries, extra=extra)


def _blip_tower(c: ModelConfig) -> Tower:
    hidden, inner, patch, image = (
        c.integer("hidden_size"),
        c.integer("intermediate_size"),
        c.integer("patch_size"),
        towers.side(c, "image_size"),
    )
    return towers.of_sizes(
        c,
        image_size=image,
        weights=(
            Weight("embeddings.class_embedding", (1, 1, hidden), "embedding"),
            Weight("embeddings.position_embedding", (1, (image // patch) ** 2 + 1, hidden), "position"),
            *_convolution("embeddings.patch_embedding", hidden, 3, patch),
            *norm("post_layernorm", hidden, True),
        ),
        layer_weights=(
            *linear("self_attn.qkv", 3 * hidden, hidden, c.flag("qkv_bias", True)),
            *linear("self_attn.projection", hidden, hidden, True),
            *norm("layer_norm1", hidden, True),
            *linear("mlp.fc1", inner, hidden, True),
            *linear("mlp.fc2", hidden, inner, True),
            *norm("layer_norm2", hidden, True),
        ),
        tower_prefix="vision_model",
        activation=c.text("hidden_act", "gelu"),
    )


def _queries(c: ModelConfig, reads_words: bool) -> Weights:
    """BERT's layers, of which every second one attends to the image."""
    hidden, inner, image = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("encoder_hidden_size")
    every = c.integer("cross_attention_frequency", 2)
    found: Weights = ()
    if reads_words:
        found += (Weight("embeddings.word_embeddings.weight", (c.integer("vocab_size"), hidden), "other"),)
        places = (c.integer("max_position_embeddings"), hidden)
        found += (Weight("embeddings.position_embeddings.weight", places, "position"),)
        found += norm("embeddings.layernorm", hidden, True)
    else:
        found += norm("layernorm", hidden, True)
    mlps = (("intermediate", "output"),) if reads_words else ()
    for index in range(c.layers()):
        name = f"encoder.layer.{index}"
        found += _query_attention(f"{name}.attention", hidden, hidden)
        if index % every == 0:
            found += _query_attention(f"{name}.crossattention", hidden, image)
        for first, second in (*mlps, ("intermediate_query", "output_query")):
            found += linear(f"{name}.{first}.dense", inner, hidden, True)
            found += linear(f"{name}.{second}.dense", hidden, inner, True)
            found += norm(f"{name}.{second}.LayerNorm", hidden, True)
    return found


def _query_attention(name: str, hidden: int, read: int) -> Weights:
    return (
        *linear(f"{name}.attention.query", hidden, hidden, True),
        *linear(f"{name}.attention.key", hidden, read, True),
        *linear(f"{name}.attention.value", hidden, read, True),
        *linear(f"{name}.output.dense", hidden, hidden, True),
        *norm(f"{name}.output.LayerNorm", hidden, True),
    )


FAMILIES: dict[str, Build] = {"florence2": florence2, "blip-2": blip2, "instructblip": blip2}
