"""Encoder-decoders whose activations are not modelled: LED and LongT5, whose encoders attend to windows, and Switch
Transformers, mixtures of experts. The names are those of transformers 5.23.
"""

from __future__ import annotations

from memlint.architectures.blocks import Weights, linear, norm
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.families.encoders import bart, t5
from memlint.architectures.model import Architecture, DecoderLayer, Weight


def led(c: ModelConfig) -> Architecture:
    """BART whose encoder attends as Longformer does."""
    hidden = c.integer("d_model")
    built = bart(c)
    prefix = "self_attn.longformer_self_attn"
    attention: Weights = tuple(
        weight
        for name in ("query", "key", "value")
        for module in (name, f"{name}_global")
        for weight in linear(f"{prefix}.{module}", hidden, hidden, True)
    )
    attention += linear("self_attn.output", hidden, hidden, True)

    def encodes(one: DecoderLayer) -> DecoderLayer:
        if one.cross_attention is not None:
            return one
        return one._replace(weights=attention + tuple(w for w in one.weights if not w.name.startswith("self_attn.")))

    tables = {
        "encoder": c.integer("max_encoder_position_embeddings", 16384),
        "decoder": c.integer("max_decoder_position_embeddings", 1024),
    }
    outside: Weights = (Weight("led.shared.weight", (c.integer("vocab_size"), hidden), "embedding"),)
    for part, count in tables.items():
        outside += (Weight(f"led.{part}.embed_positions.weight", (count, hidden), "position"),)
        outside += norm(f"led.{part}.layernorm_embedding", hidden, True)
    return built._replace(
        layer_types=tuple(encodes(one) for one in built.layer_types),
        non_layer_weights=outside,
        embedding_norm=True,
        max_positions=tables["encoder"],
        stack="led.encoder.layers",
        unmodelled="the encoder's attention runs over overlapping chunks",
    )


_LONG_T5_ATTENTION = {"local": "LocalSelfAttention", "transient-global": "TransientGlobalSelfAttention"}


def longt5(c: ModelConfig) -> Architecture:
    """T5 whose encoder attends to windows, and with `transient-global` to the sums of blocks too."""
    hidden, kind = c.integer("d_model"), c.text("encoder_attention_type", "local")
    if kind not in _LONG_T5_ATTENTION:
        raise UnsupportedConfig(f"`encoder_attention_type` of this longt5 config is `{kind[:40]}`")
    name, buckets = _LONG_T5_ATTENTION[kind], (c.integer("relative_attention_num_buckets", 32), c.integer("num_heads"))

    def encodes(one: DecoderLayer) -> DecoderLayer:
        if one.cross_attention is not None:
            return one
        weights = tuple(w._replace(name=w.name.replace("SelfAttention", name)) for w in one.weights)
        if kind == "transient-global":
            if one.attention.relative_rows:
                weights += (Weight(f"layer.0.{name}.global_relative_attention_bias.weight", buckets, "position"),)
            weights += norm(f"layer.0.{name}.global_input_layer_norm", hidden)
        return one._replace(weights=weights)

    built = t5(c)
    return built._replace(
        layer_types=tuple(encodes(one) for one in built.layer_types),
        tied_embeddings=True,
        unmodelled="the encoder's attention runs over blocks of tokens",
    )


def switch_transformers(c: ModelConfig) -> Architecture:
    """T5 with experts instead of the MLP in every n-th layer of both sides."""
    built, hidden, inner = t5(c), c.integer("d_model"), c.integer("d_ff")
    encoders, decoders = c.layers("num_layers"), c.integer("num_decoder_layers", c.layers("num_layers"))
    sparse = [
        *_sparse(encoders, c.integer("num_sparse_encoder_layers", 3, 0)),
        *_sparse(decoders, c.integer("num_sparse_decoder_layers", 3, 0)),
    ]
    count = c.integer("num_experts", 8)
    every = [built.layer_types[index] for index in built.layer_type_ids]
    layers = [_switched(one, count, hidden, inner) if is_sparse else one for one, is_sparse in zip(every, sparse)]
    layers = [one._replace(weights=tuple(_in_mlp(weight) for weight in one.weights)) for one in layers]
    kinds = tuple(dict.fromkeys(layers))
    return built._replace(
        layer_types=kinds,
        layer_type_ids=tuple(kinds.index(one) for one in layers),
        unmodelled="experts with a capacity, which choose tokens one by one",
    )


def _sparse(layers: int, count: int) -> list[bool]:
    """Which layers have experts: every `layers // count`-th, from the second on (configuration_switch_transformers.py,
    SwitchTransformersConfig.__post_init__)."""
    step = layers // count if count > 0 else layers
    return [step > 0 and (index % step == 1 or step == 1) for index in range(layers)]


def _in_mlp(weight: Weight) -> Weight:
    return weight._replace(name=weight.name.replace("DenseReluDense", "mlp"))


def _switched(one: DecoderLayer, count: int, hidden: int, inner: int) -> DecoderLayer:
    dense = tuple(weight for weight in one.weights if "DenseReluDense" in weight.name)
    prefix = dense[0].name.split(".DenseReluDense")[0]
    experts: Weights = (
        *linear(f"{prefix}.mlp.router.classifier", count, hidden, kind="router"),
        Weight(f"{prefix}.mlp.experts.expert_*.wi.weight", (inner, hidden), "linear", count),
        Weight(f"{prefix}.mlp.experts.expert_*.wo.weight", (hidden, inner), "linear", count),
    )
    return one._replace(weights=tuple(weight for weight in one.weights if weight not in dense) + experts)


FAMILIES = {"led": led, "longt5": longt5, "switch_transformers": switch_transformers}
