"""Encoders of 2019 to 2021 beside BERT: LayoutLM and RoFormer; RemBERT, DeBERTa 1, Longformer, BigBird, XLNet and
ALBERT, whose parameters alone are known. The names are those of transformers 5.23.
"""

from __future__ import annotations

from memlint.architectures.blocks import Weights, activation, linear, norm
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.families.encoders import (
    attention_without_rotary,
    bert_embeddings,
    bert_head,
    bert_layer,
    encoder,
    position_terms,
    relative_rows,
    roberta_head,
)
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight

_PROJECTIONS = ("query", "key", "value")


def layoutlm(c: ModelConfig) -> Architecture:
    """BERT whose embedding adds the places of a word's box on its page."""
    hidden, places = c.integer("hidden_size"), c.integer("max_2d_position_embeddings", 1024)
    boxes = tuple(
        Weight(f"layoutlm.embeddings.{axis}_position_embeddings.weight", (places, hidden), "position")
        for axis in ("x", "y", "h", "w")
    )
    outside = (
        *bert_embeddings(c, "layoutlm", hidden),
        *boxes,
        *linear("layoutlm.pooler.dense", hidden, hidden, True),
        *bert_head(c, hidden),
    )
    layers = [bert_layer(c, "LayoutLMLayer", *_PROJECTIONS)] * c.layers()
    return encoder(c, "LayoutLMForMaskedLM", layers, outside, "layoutlm.encoder.layer", hidden, encoder_only=True)


def roformer(c: ModelConfig) -> Architecture:
    """BERT with rotary embeddings, whose sines and cosines are a table that does not train."""
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    width = c.integer("embedding_size", hidden)
    projection = linear("roformer.embeddings_project", hidden, width, True) if width != hidden else ()
    table = (c.integer("max_position_embeddings"), hidden // heads)
    outside = (
        *bert_embeddings(c, "roformer", width, places=False),
        *projection,
        Weight("roformer.encoder.embed_positions.weight", table, "fixed"),
        *bert_head(c, width),
    )
    one = bert_layer(c, "RoFormerLayer", *_PROJECTIONS)
    one = one._replace(attention=one.attention._replace(rotary_fraction=1.0))
    return encoder(
        c,
        "RoFormerForMaskedLM",
        [one] * c.layers(),
        outside,
        "roformer.encoder.layer",
        hidden,
        encoder_only=True,
        unmodelled="values are rotated too" if c.flag("rotary_value") else "",
    )


def rembert(c: ModelConfig) -> Architecture:
    """BERT with a narrow embedding, and a head of its own that is wider than the layers."""
    hidden, vocabulary = c.integer("hidden_size"), c.integer("vocab_size")
    width, out = c.integer("input_embedding_size", 256), c.integer("output_embedding_size", 1664)
    outside = (
        *bert_embeddings(c, "rembert", width),
        *linear("rembert.encoder.embedding_hidden_mapping_in", hidden, width, True),
        *linear("cls.predictions.dense", out, hidden, True),
        *linear("cls.predictions.decoder", vocabulary, out, True, "head"),
        *norm("cls.predictions.LayerNorm", out, True),
    )
    layers = [bert_layer(c, "RemBertLayer", *_PROJECTIONS)] * c.layers()
    return encoder(
        c,
        "RemBertForMaskedLM",
        layers,
        outside,
        "rembert.encoder.layer",
        hidden,
        encoder_only=True,
        unmodelled="a head that is wider than the layers",
    )._replace(tied_embeddings=False)


def deberta(c: ModelConfig) -> Architecture:
    """DeBERTa 1: queries, keys and values in one projection, two biases, projections of the distances."""
    hidden, width = c.integer("hidden_size"), c.integer("embedding_size", c.integer("hidden_size"))
    terms = position_terms(c)
    relative, talks = c.flag("relative_attention"), c.flag("talking_head")
    heads = c.integer("num_attention_heads")
    base = bert_layer(c, "DebertaLayer", *_PROJECTIONS)
    kept = tuple(weight for weight in base.weights if not weight.name.startswith("attention.self."))
    own: Weights = (
        *(Weight(f"attention.self.{name}_bias", (hidden,), "bias") for name in ("q", "v")),
        *linear("attention.self.in_proj", 3 * hidden, hidden),
        *(linear("attention.self.pos_proj", hidden, hidden) if relative and "c2p" in terms else ()),
        *(linear("attention.self.pos_q_proj", hidden, hidden, True) if relative and "p2c" in terms else ()),
    )
    for name in ("head_logits_proj", "head_weights_proj") if talks else ():
        own += linear(f"attention.self.{name}", heads, heads)
    outside = (
        *bert_embeddings(c, "deberta", width),
        *(linear("deberta.embeddings.embed_proj", hidden, width) if width != hidden else ()),
        *(
            (Weight("deberta.encoder.rel_embeddings.weight", (relative_rows(c), hidden), "position"),)
            if relative
            else ()
        ),
        *bert_head(c, hidden),
    )
    layers = [base._replace(weights=own + kept)] * c.layers()
    return encoder(
        c,
        "DebertaForMaskedLM",
        layers,
        outside,
        "deberta.encoder.layer",
        hidden,
        encoder_only=True,
        unmodelled="scores add those of distances, in the form of DeBERTa 1",
    )


def albert(c: ModelConfig) -> Architecture:
    """ALBERT: its layers have the same parameters, which are listed as those of the only layer that has some."""
    hidden, inner, width = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("embedding_size", 128)
    if c.integer("num_hidden_groups", 1) > 1:
        raise UnsupportedConfig("layers of this albert config share parameters in several groups")
    head: Weights = (
        Weight("predictions.bias", (c.integer("vocab_size"),), "bias"),
        *linear("predictions.dense", width, hidden, True),
        *norm("predictions.LayerNorm", width, True),
    )
    shared: Weights = (
        *norm("full_layer_layer_norm", hidden, True),
        *(weight for name in (*_PROJECTIONS, "dense") for weight in linear(f"attention.{name}", hidden, hidden, True)),
        *norm("attention.LayerNorm", hidden, True),
        *linear("ffn", inner, hidden, True),
        *linear("ffn_output", hidden, inner, True),
    )
    outside = (
        *bert_embeddings(c, "albert", width),
        *linear("albert.encoder.embedding_hidden_mapping_in", hidden, width, True),
        *head,
    )
    one = bert_layer(c, "AlbertLayer", *_PROJECTIONS)._replace(weights=shared)
    return encoder(
        c,
        "AlbertForMaskedLM",
        [one] * c.integer("inner_group_num", 1),
        outside,
        "albert.encoder.albert_layer_groups.0.albert_layers",
        hidden,
        encoder_only=True,
        unmodelled="layers share their parameters",
    )


def longformer(c: ModelConfig) -> Architecture:
    """RoBERTa whose tokens attend to a window, and some of them, with projections of their own, to all tokens."""
    hidden = c.integer("hidden_size")
    one = bert_layer(c, "LongformerLayer", *_PROJECTIONS)
    globally = tuple(
        weight for name in _PROJECTIONS for weight in linear(f"attention.self.{name}_global", hidden, hidden, True)
    )
    return encoder(
        c,
        "LongformerForMaskedLM",
        [one._replace(weights=one.weights + globally)] * c.layers(),
        bert_embeddings(c, "longformer", hidden) + roberta_head(c),
        "longformer.encoder.layer",
        hidden,
        encoder_only=True,
        unmodelled="attention runs over overlapping chunks",
    )


def big_bird(c: ModelConfig) -> Architecture:
    """BERT with attention to blocks of tokens, some of them drawn at random."""
    hidden, bias = c.integer("hidden_size"), c.flag("use_bias", True)
    one = bert_layer(c, "BigBirdLayer", *_PROJECTIONS)
    biases = tuple(f"attention.self.{name}.bias" for name in _PROJECTIONS)
    kept = tuple(weight for weight in one.weights if bias or weight.name not in biases)
    outside = (
        *bert_embeddings(c, "bert", hidden),
        *linear("bert.pooler", hidden, hidden, True),
        *bert_head(c, hidden),
    )
    return encoder(
        c,
        "BigBirdForMaskedLM",
        [one._replace(weights=kept)] * c.layers(),
        outside,
        "bert.encoder.layer",
        hidden,
        encoder_only=True,
        unmodelled="attention runs over blocks of tokens",
    )


def xlnet(c: ModelConfig) -> Architecture:
    """XLNet: attention with relative positions and segments, whose parameters are not linear layers."""
    hidden, heads, inner = c.integer("d_model"), c.integer("n_head"), c.integer("d_inner")
    dim = c.integer("d_head", hidden // heads)
    weights: Weights = (
        *(Weight(f"rel_attn.{name}", (hidden, heads, dim), "other") for name in ("q", "k", "v", "o", "r")),
        *(Weight(f"rel_attn.{name}", (heads, dim), "other") for name in ("r_r_bias", "r_s_bias", "r_w_bias")),
        Weight("rel_attn.seg_embed", (2, heads, dim), "other"),
        *norm("rel_attn.layer_norm", hidden, True),
        *norm("ff.layer_norm", hidden, True),
        *linear("ff.layer_1", inner, hidden, True),
        *linear("ff.layer_2", hidden, inner, True),
    )
    mixer: TokenMixer = attention_without_rotary(heads, dim, c.number("dropout", 0.1))
    mlp = Mlp("plain", inner, c.text("ff_activation") or activation(c), dropout=c.number("dropout", 0.1))
    one = DecoderLayer(mixer, mlp, norm="layer", class_name="XLNetLayer", weights=weights)
    outside = (
        Weight("transformer.mask_emb", (1, 1, hidden), "other"),
        Weight("transformer.word_embedding.weight", (c.integer("vocab_size"), hidden), "embedding"),
        Weight("lm_loss.bias", (c.integer("vocab_size"),), "bias"),
    )
    return encoder(
        c,
        "XLNetLMHeadModel",
        [one] * c.layers("n_layer"),
        outside,
        "transformer.layer",
        hidden,
        unmodelled="attention adds scores of relative positions and of segments",
    )


FAMILIES = {
    "albert": albert,
    "big_bird": big_bird,
    "deberta": deberta,
    "layoutlm": layoutlm,
    "longformer": longformer,
    "rembert": rembert,
    "roformer": roformer,
    "xlnet": xlnet,
}
