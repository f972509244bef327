"""Encoders whose layers norm the inputs of attention and MLP, not their sums: ESM-2, Megatron-BERT, RoBERTa with norms
before its blocks, XLM-RoBERTa XL. The names are those of transformers 5.23.
"""

from __future__ import annotations

from memlint._record import NamedTuple
from memlint.architectures.blocks import Weights, activation, linear, norm
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.encoders import attention_without_rotary, bert_embeddings, encoder
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, Weight


class _Names(NamedTuple):
    """What classes and modules of a family are called. `norms`: the two of a layer and that after the last layer.
    `head`: the dense layer before the product with the embedding."""

    classes: str
    prefix: str
    norms: tuple[str, str, str]
    head: str = "lm_head.dense"
    head_norm: str = "lm_head.layer_norm"
    head_bias: str = "lm_head.bias"
    typed: bool = True
    normed_embeddings: bool = False


_FAMILIES = {
    "esm": _Names(
        classes="Esm",
        prefix="esm",
        norms=("attention.LayerNorm", "LayerNorm", "encoder.emb_layer_norm_after"),
        typed=False,
    ),
    "megatron-bert": _Names(
        classes="MegatronBert",
        prefix="bert",
        norms=("attention.ln", "ln", "encoder.ln"),
        head="cls.predictions.transform.dense",
        head_norm="cls.predictions.transform.LayerNorm",
        head_bias="cls.predictions.bias",
    ),
    "roberta-prelayernorm": _Names(
        classes="RobertaPreLayerNorm",
        prefix="roberta_prelayernorm",
        norms=("attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm"),
        normed_embeddings=True,
    ),
    "xlm-roberta-xl": _Names(
        classes="XLMRobertaXL",
        prefix="roberta",
        norms=("attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm"),
    ),
}


def pre_norm_encoder(c: ModelConfig) -> Architecture:
    names, hidden = _FAMILIES[c.family], c.integer("hidden_size")
    before, inside, last = names.norms
    outside = (
        *_embeddings(c, names),
        *norm(f"{names.prefix}.{last}", hidden, True),
        *linear(names.head, hidden, hidden, True),
        *norm(names.head_norm, hidden, True),
        Weight(names.head_bias, (c.integer("vocab_size"),), "bias"),
    )
    if c.family == "esm":
        outside += linear("esm.contact_head.regression", 1, c.layers() * c.integer("num_attention_heads"), True)
    layers = [_layer(c, names.classes, before, inside)] * c.layers()
    stack = f"{names.prefix}.encoder.layer"
    found = encoder(c, f"{names.classes}ForMaskedLM", layers, outside, stack, hidden, encoder_only=True)
    return found._replace(final_norm="" if names.normed_embeddings else last.split(".")[-1])


def _embeddings(c: ModelConfig, names: _Names) -> Weights:
    hidden = c.integer("hidden_size")
    rotary = c.text("position_embedding_type", "absolute") == "rotary"
    found = bert_embeddings(c, names.prefix, hidden, names.typed, not rotary)
    return found if names.normed_embeddings else tuple(w for w in found if ".embeddings.LayerNorm." not in w.name)


def _layer(c: ModelConfig, classes: str, before: str, inside: str) -> DecoderLayer:
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    weights = (
        *norm(before, hidden, True),
        *(weight for name in _PROJECTIONS for weight in linear(f"attention.self.{name}", hidden, hidden, True)),
        *linear("attention.output.dense", hidden, hidden, True),
        *norm(inside, hidden, True),
        *linear("intermediate.dense", inner, hidden, True),
        *linear("output.dense", hidden, inner, True),
    )
    mixer = attention_without_rotary(heads, hidden // heads, c.number("attention_probs_dropout_prob", 0.1))
    if c.text("position_embedding_type") == "rotary":
        mixer = mixer._replace(rotary_fraction=1.0)
    act = "gelu_of_erf" if c.family == "esm" else activation(c)
    mlp = Mlp("plain", inner, act, dropout=c.number("hidden_dropout_prob", 0.1))
    return DecoderLayer(mixer, mlp, norm="layer", class_name=f"{classes}Layer", weights=weights)


_PROJECTIONS = ("query", "key", "value")

FAMILIES = dict.fromkeys(_FAMILIES, pre_norm_encoder)
