"""Encoders (BERT, RoBERTa, DistilBERT, ELECTRA, DeBERTa, ModernBERT) with their masked language-model head, and
encoder-decoders (T5, BART and relatives). The names are those of transformers 5.23."""

from __future__ import annotations

from typing import Any

from memlint.architectures.assemble import positions
from memlint.architectures.blocks import Weights, activation, grouped_query, linear, norm, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.dense import standard
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight
from memlint.architectures.windows import window_size


def encoder(
    c: ModelConfig,
    class_name: str,
    layers: list[DecoderLayer],
    non_layer: Weights,
    stack: str,
    hidden: int,
    **traits: Any,
) -> Architecture:
    kinds = tuple(dict.fromkeys(layers))
    return Architecture(
        family=c.family,
        class_name=class_name,
        hidden_size=hidden,
        vocab_size=c.integer("vocab_size"),
        layer_types=kinds,
        layer_type_ids=tuple(kinds.index(one) for one in layers),
        non_layer_weights=non_layer,
        tied_embeddings=c.flag("tie_word_embeddings", True),
        max_positions=positions(c),
        stack=stack,
        embedding_norm=_has(non_layer, "embeddings.LayerNorm") or _has(non_layer, "embeddings.norm"),
        learned_positions=_has(non_layer, "embeddings.position_embeddings"),
        projected_embeddings=_has(non_layer, "embeddings_project"),
        typed_embeddings=_has(non_layer, "embeddings.token_type_embeddings"),
        **{"embedding_dropout": c.number("hidden_dropout_prob"), **traits},
    )


def _has(weights: Weights, module: str) -> bool:
    return any(weight.name.endswith(f"{module}.weight") for weight in weights)


def attention_without_rotary(heads: int, head_dim: int, dropout: float) -> TokenMixer:
    """Attention with as many keys and values as queries, and without rotary embeddings."""
    return TokenMixer(heads=heads, kv_heads=heads, head_dim=head_dim, rotary_fraction=0.0, dropout=dropout)


def bert_layer(c: ModelConfig, class_name: str, query: str, key: str, value: str) -> DecoderLayer:
    """Attention and a plain MLP, each with a LayerNorm over its sum with the residual stream."""
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    weights = (
        *(weight for name in (query, key, value) for weight in linear(f"attention.self.{name}", hidden, hidden, True)),
        *linear("attention.output.dense", hidden, hidden, True),
        *norm("attention.output.LayerNorm", hidden, True),
        *linear("intermediate.dense", inner, hidden, True),
        *linear("output.dense", hidden, inner, True),
        *norm("output.LayerNorm", hidden, True),
    )
    mixer = attention_without_rotary(heads, hidden // heads, c.number("attention_probs_dropout_prob", 0.1))
    mlp = Mlp("plain", inner, activation(c), dropout=c.number("hidden_dropout_prob", 0.1))
    return DecoderLayer(mixer, mlp, norm="layer", class_name=class_name, weights=weights)


def bert_embeddings(c: ModelConfig, prefix: str, width: int, typed: bool = True, places: bool = True) -> Weights:
    """Tables of words, of positions (`places`) and of which text a word belongs to (`typed`), and their norm."""
    vocabulary, types = c.integer("vocab_size"), c.integer("type_vocab_size", 0, 0)
    found: Weights = (Weight(f"{prefix}.embeddings.word_embeddings.weight", (vocabulary, width), "embedding"),)
    if places and c.flag("position_biased_input", True):
        size = (c.integer("max_position_embeddings"), width)
        found += (Weight(f"{prefix}.embeddings.position_embeddings.weight", size, "position"),)
    if typed and types:
        found += (Weight(f"{prefix}.embeddings.token_type_embeddings.weight", (types, width), "position"),)
    return found + norm(f"{prefix}.embeddings.LayerNorm", width, True)


def bert_head(c: ModelConfig, width: int) -> Weights:
    """The head for masked words, for an embedding of `width` numbers that it shares."""
    return (
        Weight("cls.predictions.bias", (c.integer("vocab_size"),), "bias"),
        *linear("cls.predictions.transform.dense", width, c.integer("hidden_size"), True),
        *norm("cls.predictions.transform.LayerNorm", width, True),
    )


def roberta_head(c: ModelConfig) -> Weights:
    """The same under RoBERTa's names."""
    hidden = c.integer("hidden_size")
    return (
        Weight("lm_head.bias", (c.integer("vocab_size"),), "bias"),
        *linear("lm_head.dense", hidden, hidden, True),
        *norm("lm_head.layer_norm", hidden, True),
    )


def bert(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    name = "Ernie" if c.family == "ernie" else "Bert"
    prefix = name.lower()
    one = bert_layer(c, f"{name}Layer", "query", "key", "value")
    outside = bert_embeddings(c, prefix, hidden)
    if c.family == "ernie" and c.flag("use_task_id"):
        size = (c.integer("task_type_vocab_size", 3), hidden)
        outside += (Weight("ernie.embeddings.task_type_embeddings.weight", size, "position"),)
    stack = f"{prefix}.encoder.layer"
    head = bert_head(c, hidden)
    return encoder(c, f"{name}ForMaskedLM", [one] * c.layers(), outside + head, stack, hidden, encoder_only=True)


def roberta(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    name, prefix = {
        "roberta": ("Roberta", "roberta"),
        "xlm-roberta": ("XLMRoberta", "roberta"),
        "camembert": ("Camembert", "roberta"),
        "data2vec-text": ("Data2VecText", "data2vec_text"),
    }[c.family]
    one = bert_layer(c, f"{name}Layer", "query", "key", "value")
    embeddings = bert_embeddings(c, prefix, hidden)
    stack = f"{prefix}.encoder.layer"
    return encoder(
        c, f"{name}ForMaskedLM", [one] * c.layers(), embeddings + roberta_head(c), stack, hidden, encoder_only=True
    )


def mpnet(c: ModelConfig) -> Architecture:
    """BERT's layers with biases of scores by distance, which one table of the encoder holds for all of them."""
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    weights = (
        *(weight for name in ("q", "k", "v", "o") for weight in linear(f"attention.attn.{name}", hidden, hidden, True)),
        *norm("attention.LayerNorm", hidden, True),
        *linear("intermediate.dense", inner, hidden, True),
        *linear("output.dense", hidden, inner, True),
        *norm("output.LayerNorm", hidden, True),
    )
    mixer = attention_without_rotary(heads, hidden // heads, c.number("attention_probs_dropout_prob", 0.1))
    mlp = Mlp("plain", inner, activation(c), dropout=c.number("hidden_dropout_prob", 0.1))
    one = DecoderLayer(mixer, mlp, norm="layer", class_name="MPNetLayer", weights=weights)
    size = (c.integer("relative_attention_num_buckets", 32), heads)
    bias = (Weight("mpnet.encoder.relative_attention_bias.weight", size, "position"),)
    outside = bert_embeddings(c, "mpnet", hidden, typed=False) + bias + roberta_head(c)
    layers = [one] * c.layers()
    return encoder(c, "MPNetForMaskedLM", layers, outside, "mpnet.encoder.layer", hidden, encoder_only=True)


# Name of the classes, prefix of the encoder, that of the head for masked words, its bias, whether projections have one.
_ROTARY_BERTS = {
    "nomic_bert": ("NomicBert", "nomic_bert", "cls.predictions.transform", "cls.predictions.bias", False),
    "gte": ("Gte", "gte", "lm_head", "lm_head.decoder.bias", True),
    "jina_embeddings_v3": ("JinaEmbeddingsV3", "roberta", "lm_head", "lm_head.bias", True),
}


def rotary_bert(c: ModelConfig) -> Architecture:
    """BERT with rotary embeddings: Nomic BERT and GTE with a gated MLP, Jina embeddings 3 with a plain one."""
    hidden, vocabulary, inner = c.integer("hidden_size"), c.integer("vocab_size"), c.integer("intermediate_size")
    name, prefix, head, head_bias, bias = _ROTARY_BERTS[c.family]
    dropout = c.number("hidden_dropout_prob")
    mixer, weights = grouped_query(c, bias=bias, out_bias=bias)
    mixer = mixer._replace(dropout=c.number("attention_probs_dropout_prob"))
    mlp = Mlp("plain" if c.family == "jina_embeddings_v3" else "gated", inner, activation(c), dropout=dropout)
    names = ("fc1",) if mlp.kind == "plain" else ("gate_proj", "up_proj")
    for part in names:
        weights += linear(f"mlp.{part}", inner, hidden, mlp.kind == "plain")
    weights += linear("mlp.fc2" if mlp.kind == "plain" else "mlp.down_proj", hidden, inner, bias)
    weights += norms(hidden, "post_attention_layernorm", "post_mlp_layernorm", bias=True)
    one = DecoderLayer(mixer, mlp, norm="layer", class_name=f"{name}Layer", weights=weights)
    types = c.integer("type_vocab_size", 0, 0)
    outside: Weights = (Weight(f"{prefix}.embeddings.word_embeddings.weight", (vocabulary, hidden), "embedding"),)
    if types:
        outside += (Weight(f"{prefix}.embeddings.token_type_embeddings.weight", (types, hidden), "position"),)
    outside += (
        *norm(f"{prefix}.embeddings.LayerNorm", hidden, True),
        *linear(f"{head}.dense", hidden, hidden, True),
        *norm(f"{head}.layer_norm", hidden, True),
        Weight(head_bias, (vocabulary,), "bias"),
    )
    stack = f"{prefix}.layers"
    return encoder(c, f"{name}ForMaskedLM", [one] * c.layers(), outside, stack, hidden, encoder_only=True)


def eurobert(c: ModelConfig) -> Architecture:
    """Llama's layers, without a mask of what follows."""
    return standard(c, "EuroBert")._replace(class_name="EuroBertForMaskedLM", encoder_only=True)


def electra(c: ModelConfig) -> Architecture:
    hidden, vocabulary, width = c.integer("hidden_size"), c.integer("vocab_size"), c.integer("embedding_size")
    projection = linear("electra.embeddings_project", hidden, width, True) if width != hidden else ()
    head = (
        *norm("generator_predictions.LayerNorm", width, True),
        *linear("generator_predictions.dense", width, hidden, True),
        Weight("generator_lm_head.bias", (vocabulary,), "bias"),
    )
    one = bert_layer(c, "ElectraLayer", "query", "key", "value")
    outside = bert_embeddings(c, "electra", width) + projection + head
    stack = "electra.encoder.layer"
    return encoder(c, "ElectraForMaskedLM", [one] * c.layers(), outside, stack, hidden, encoder_only=True)


def deberta_v2(c: ModelConfig) -> Architecture:
    """Attention whose scores add those of relative positions (disentangled)."""
    hidden = c.integer("hidden_size")
    one = bert_layer(c, "DebertaV2Layer", "query_proj", "key_proj", "value_proj")
    relative: Weights = ()
    if c.flag("relative_attention"):
        rows = relative_rows(c)
        relative = (Weight("deberta.encoder.rel_embeddings.weight", (rows, hidden), "position"),)
        if "layer_norm" in c.text("norm_rel_ebd", "none"):
            relative += norm("deberta.encoder.LayerNorm", hidden, True)
        terms = position_terms(c)
        own = () if c.flag("share_att_key") else tuple(_POSITION_PROJECTIONS[term] for term in terms)
        weights = tuple(weight for name in own for weight in linear(f"attention.self.{name}", hidden, hidden, True))
        mixer = one.attention._replace(relative_rows=rows, position_terms=len(terms))
        one = one._replace(attention=mixer, weights=one.weights + weights)
    outside = bert_embeddings(c, "deberta", hidden) + relative + bert_head(c, hidden)
    stack = "deberta.encoder.layer"
    return encoder(c, "DebertaV2ForMaskedLM", [one] * c.layers(), outside, stack, hidden, encoder_only=True)


# What a term of the scores projects the distances with, unless it shares the keys' or the queries' projection.
_POSITION_PROJECTIONS = {"c2p": "pos_key_proj", "p2c": "pos_query_proj"}


def position_terms(c: ModelConfig) -> tuple[str, ...]:
    """A list, or text with bars between ("c2p|p2c")."""
    stated = c.get("pos_att_type")
    names = stated.split("|") if isinstance(stated, str) else stated if isinstance(stated, (list, tuple)) else ()
    return tuple(term for term in _POSITION_PROJECTIONS if term in names)


def relative_rows(c: ModelConfig) -> int:
    """Rows of the table of distances, in both directions."""
    for name in ("position_buckets", "max_relative_positions"):
        size = c.get(name, -1)
        if isinstance(size, int) and size > 0:
            return 2 * size
    return 2 * c.integer("max_position_embeddings")


def distilbert(c: ModelConfig) -> Architecture:
    hidden, inner, heads = c.integer("dim"), c.integer("hidden_dim"), c.integer("n_heads")
    vocabulary, dropout = c.integer("vocab_size"), c.number("dropout", 0.1)
    names = ("q_lin", "k_lin", "v_lin", "out_lin")
    weights = (
        *(weight for name in names for weight in linear(f"attention.{name}", hidden, hidden, True)),
        *norms(hidden, "sa_layer_norm", "output_layer_norm", bias=True),
        *linear("ffn.lin1", inner, hidden, True),
        *linear("ffn.lin2", hidden, inner, True),
    )
    mixer = attention_without_rotary(heads, hidden // heads, c.number("attention_dropout", 0.1))
    mlp = Mlp("plain", inner, c.text("activation", "gelu"), dropout=dropout)
    one = DecoderLayer(mixer, mlp, norm="layer", class_name="TransformerBlock", weights=weights)
    outside = (
        Weight("distilbert.embeddings.word_embeddings.weight", (vocabulary, hidden), "embedding"),
        Weight(
            "distilbert.embeddings.position_embeddings.weight",
            (c.integer("max_position_embeddings"), hidden),
            "position",
        ),
        *norm("distilbert.embeddings.LayerNorm", hidden, True),
        *linear("vocab_transform", hidden, hidden, True),
        *norm("vocab_layer_norm", hidden, True),
        Weight("vocab_projector.bias", (vocabulary,), "bias"),
    )
    stack, layers = "distilbert.transformer.layer", [one] * c.layers("n_layers")
    traits = {"encoder_only": True, "embedding_dropout": dropout}
    return encoder(c, "DistilBertForMaskedLM", layers, outside, stack, hidden, **traits)


def modernbert(c: ModelConfig) -> Architecture:
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    vocabulary, window = c.integer("vocab_size"), window_size(c) or c.integer("local_attention", 128) // 2
    every = c.integer("global_attn_every_n_layers", 3)

    def one(index: int) -> DecoderLayer:
        weights = (
            *(norm("attn_norm", hidden) if index else ()),
            *linear("attn.Wqkv", 3 * hidden, hidden),
            *linear("attn.Wo", hidden, hidden),
            *norm("mlp_norm", hidden),
            *linear("mlp.Wi", 2 * inner, hidden),
            *linear("mlp.Wo", hidden, inner),
        )
        mixer = TokenMixer(
            heads=heads,
            kv_heads=heads,
            head_dim=hidden // heads,
            fused_qkv=True,
            sliding_window=window if index % every else 0,
        )
        mlp = Mlp("gated", inner, activation(c), fused_gate_up=True)
        name = "ModernBertEncoderLayer"
        return DecoderLayer(mixer, mlp, norm="layer", class_name=name, weights=weights, norms_input=index > 0)

    outside = (
        Weight("model.embeddings.tok_embeddings.weight", (vocabulary, hidden), "embedding"),
        *norm("model.embeddings.norm", hidden),
        *norm("model.final_norm", hidden),
        *linear("head.dense", hidden, hidden),
        *norm("head.norm", hidden),
        Weight("decoder.bias", (vocabulary,), "bias"),
    )
    layers = [one(index) for index in range(c.layers())]
    traits = {"encoder_only": True, "embedding_dropout": c.number("embedding_dropout")}
    return encoder(c, "ModernBertForMaskedLM", layers, outside, "model.layers", hidden, **traits)


def modernbert_decoder(c: ModelConfig) -> Architecture:
    """ModernBERT's layers with separate projections, as a causal language model (Ettin)."""
    hidden, inner, heads = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_attention_heads")
    biased, vocabulary = c.flag("attention_bias"), c.integer("vocab_size")
    every, window = c.integer("global_attn_every_n_layers", 3), c.integer("local_attention", 128) // 2
    kinds = [str(kind) for kind in c.items("layer_types")]
    slides = [kind == "sliding_attention" for kind in kinds] or [index % every > 0 for index in range(c.layers())]

    def one(index: int) -> DecoderLayer:
        weights = (
            *(norm("attn_norm", hidden, c.flag("norm_bias")) if index else ()),
            *(weight for name in "qkv" for weight in linear(f"attn.{name}_proj", hidden, hidden, biased)),
            *linear("attn.Wo", hidden, hidden, biased),
            *norm("mlp_norm", hidden, c.flag("norm_bias")),
            *linear("mlp.Wi", 2 * inner, hidden, c.flag("mlp_bias")),
            *linear("mlp.Wo", hidden, inner, c.flag("mlp_bias")),
        )
        sliding = window if slides[index] else 0
        mixer = TokenMixer(heads=heads, kv_heads=heads, head_dim=hidden // heads, sliding_window=sliding)
        mlp = Mlp("gated", inner, activation(c), fused_gate_up=True)
        name = "ModernBertDecoderLayer"
        return DecoderLayer(mixer, mlp, norm="layer", class_name=name, weights=weights, norms_input=index > 0)

    outside = (
        Weight("model.embeddings.tok_embeddings.weight", (vocabulary, hidden), "embedding"),
        *norm("model.embeddings.norm", hidden, c.flag("norm_bias")),
        *norm("model.final_norm", hidden, c.flag("norm_bias")),
        *linear("lm_head.dense", hidden, hidden, c.flag("classifier_bias")),
        *norm("lm_head.norm", hidden, c.flag("norm_bias")),
        *((Weight("decoder.bias", (vocabulary,), "bias"),) if c.flag("decoder_bias", True) else ()),
    )
    layers = [one(index) for index in range(c.layers())]
    dropout = c.number("embedding_dropout")
    return encoder(
        c, "ModernBertDecoderForCausalLM", layers, outside, "model.layers", hidden, embedding_dropout=dropout
    )


def t5(c: ModelConfig) -> Architecture:
    """The head is tied whatever the configuration says (configuration_t5.py:83)."""
    hidden, vocabulary = c.integer("d_model"), c.integer("vocab_size")
    buckets = (c.integer("relative_attention_num_buckets", 32), c.integer("num_heads"))
    decoders = c.integer("num_decoder_layers", c.layers("num_layers"))
    everywhere = c.family == "umt5"  # positions of its own in every block

    def block(decoder: bool, first: bool) -> DecoderLayer:
        mixer, own = _t5_attention(c, "layer.0.SelfAttention")
        weights = own + norm("layer.0.layer_norm", hidden)
        if first or everywhere:
            mixer = mixer._replace(relative_rows=buckets[0])
            weights += (Weight("layer.0.SelfAttention.relative_attention_bias.weight", buckets, "position"),)
        if decoder:
            weights += _t5_attention(c, "layer.1.EncDecAttention")[1] + norm("layer.1.layer_norm", hidden)
        mlp, inside = _t5_mlp(c, f"layer.{2 if decoder else 1}")
        return DecoderLayer(
            mixer,
            mlp,
            class_name=f"{_T5_NAMES[c.family]}Block",
            weights=weights + inside,
            cross_attention=mixer._replace(relative_rows=0) if decoder else None,
        )

    layers = [block(False, index == 0) for index in range(c.layers("num_layers"))]
    layers += [block(True, index == 0) for index in range(decoders)]
    outside = (
        Weight("shared.weight", (vocabulary, hidden), "embedding"),
        *norms(hidden, "encoder.final_layer_norm", "decoder.final_layer_norm"),
    )
    name = f"{_T5_NAMES[c.family]}ForConditionalGeneration"
    found = encoder(c, name, layers, outside, "encoder.block", hidden, encoder_decoder=True)
    return found._replace(tied_embeddings=True, embedding_dropout=c.number("dropout_rate", 0.1))


_T5_NAMES = {
    "t5": "T5",
    "mt5": "MT5",
    "umt5": "UMT5",
    "longt5": "LongT5",
    "switch_transformers": "SwitchTransformers",
}


def _t5_attention(c: ModelConfig, prefix: str) -> tuple[TokenMixer, Weights]:
    hidden, heads, dim = c.integer("d_model"), c.integer("num_heads"), c.integer("d_kv")
    weights = (
        *(weight for name in "qkv" for weight in linear(f"{prefix}.{name}", heads * dim, hidden)),
        *linear(f"{prefix}.o", hidden, heads * dim),
    )
    dropout = c.number("dropout_rate", 0.1)
    return attention_without_rotary(heads, dim, dropout), weights


def _t5_mlp(c: ModelConfig, prefix: str) -> tuple[Mlp, Weights]:
    hidden, inner, kind = c.integer("d_model"), c.integer("d_ff"), c.text("feed_forward_proj", "relu")
    act = {"gated-gelu": "gelu_new"}.get(kind, kind.removeprefix("gated-"))
    inside = f"{prefix}.DenseReluDense"
    gated = kind.startswith("gated")
    weights: Weights = ()
    for name in ("wi_0", "wi_1") if gated else ("wi",):
        weights += linear(f"{inside}.{name}", inner, hidden)
    weights += linear(f"{inside}.wo", hidden, inner) + norm(f"{prefix}.layer_norm", hidden)
    return Mlp("gated" if gated else "plain", inner, act, dropout=c.number("dropout_rate", 0.1)), weights


_BART_NAMES = {
    "bart": "Bart",
    "mbart": "MBart",
    "pegasus": "Pegasus",
    "marian": "Marian",
    "whisper": "Whisper",
    "m2m_100": "M2M100",
    "plbart": "PLBart",
    "blenderbot": "Blenderbot",
    "blenderbot-small": "BlenderbotSmall",
    "led": "LED",
}
_TABLES = {"bart": 2, "mbart": 2, "plbart": 2, "blenderbot": 0, "blenderbot-small": 0, "pegasus": 0, "marian": 0}
_SINUSOIDAL = ("pegasus", "marian")  # models/marian/modeling_marian.py, MarianSinusoidalPositionalEmbedding
_NORMS_EMBEDDINGS = ("bart", "mbart", "plbart", "blenderbot-small")
_NORMS_ENDS = ("mbart", "pegasus", "m2m_100", "blenderbot")


def bart(c: ModelConfig) -> Architecture:
    """BART and what is built like it. M2M-100 (NLLB) computes its positions and has no table of them."""
    hidden, vocabulary = c.integer("d_model"), c.integer("vocab_size")
    name = _BART_NAMES[c.family]
    dropout = c.number("dropout", 0.0 if name == "Whisper" else 0.1)

    def block(part: str, decoder: bool) -> DecoderLayer:
        heads, inner = c.integer(f"{part}_attention_heads"), c.integer(f"{part}_ffn_dim")
        weights = _bart_attention("self_attn", hidden)
        if decoder:
            weights += _bart_attention("encoder_attn", hidden)
        weights += linear("fc1", inner, hidden, True) + linear("fc2", hidden, inner, True)
        weights += norm("final_layer_norm", hidden, True)
        mixer = attention_without_rotary(heads, hidden // heads, c.number("attention_dropout"))
        mlp = Mlp("plain", inner, activation(c), dropout=dropout)
        return DecoderLayer(
            mixer,
            mlp,
            norm="layer",
            class_name=f"{name}{part.capitalize()}Layer",
            weights=weights,
            cross_attention=mixer._replace(relative_rows=0) if decoder else None,
        )

    layers = [block("encoder", False)] * c.layers("encoder_layers")
    layers += [block("decoder", True)] * c.layers("decoder_layers")
    outside: Weights = (Weight("model.shared.weight", (vocabulary, hidden), "embedding"),)
    for part in ("encoder", "decoder"):
        outside += _bart_ends(c, part, hidden)
    class_name = "MarianMTModel" if name == "Marian" else f"{name}ForConditionalGeneration"
    found = encoder(c, class_name, layers, outside, "model.encoder.layers", hidden, encoder_decoder=True)
    return found._replace(
        embedding_scale=name != "Whisper",
        embedding_norm=c.family in _NORMS_EMBEDDINGS,
        learned_positions=True,
        embedding_dropout=dropout,
        final_norm="layer_norm" if c.family in _NORMS_ENDS else "",
    )


def _bart_attention(prefix: str, hidden: int) -> Weights:
    names = ("k_proj", "v_proj", "q_proj", "out_proj")
    weights = tuple(weight for name in names for weight in linear(f"{prefix}.{name}", hidden, hidden, True))
    return weights + norm(f"{prefix}_layer_norm", hidden, True)


def _bart_ends(c: ModelConfig, part: str, hidden: int) -> Weights:
    found: Weights = ()
    if c.family in _TABLES:
        count = c.integer("max_position_embeddings") + _TABLES[c.family]
        kind = "fixed" if c.family in _SINUSOIDAL else "position"
        found += (Weight(f"model.{part}.embed_positions.weight", (count, hidden), kind),)
    if c.family in _NORMS_EMBEDDINGS:
        found += norm(f"model.{part}.layernorm_embedding", hidden, True)
    if c.family in _NORMS_ENDS:
        found += norm(f"model.{part}.layer_norm", hidden, True)
    return found


def whisper(c: ModelConfig) -> Architecture:
    """Whisper: BART's layers, keys without a bias, behind two convolutions over mel bins."""
    hidden, bins = c.integer("d_model"), c.integer("num_mel_bins", 80)
    without = ("self_attn.k_proj.bias", "encoder_attn.k_proj.bias")
    built = bart(c)
    layers = tuple(
        one._replace(weights=tuple(weight for weight in one.weights if weight.name not in without))
        for one in built.layer_types
    )
    outside: Weights = (
        Weight("model.decoder.embed_tokens.weight", (c.integer("vocab_size"), hidden), "embedding"),
        Weight("model.decoder.embed_positions.weight", (c.integer("max_target_positions"), hidden), "position"),
        Weight("model.encoder.embed_positions.weight", (c.integer("max_source_positions"), hidden), "fixed"),
        Weight("model.encoder.conv1.weight", (hidden, bins, 3), "conv"),
        Weight("model.encoder.conv1.bias", (hidden,), "bias"),
        Weight("model.encoder.conv2.weight", (hidden, hidden, 3), "conv"),
        Weight("model.encoder.conv2.bias", (hidden,), "bias"),
        *norms(hidden, "model.encoder.layer_norm", "model.decoder.layer_norm", bias=True),
    )
    return built._replace(
        layer_types=layers,
        non_layer_weights=outside,
        max_positions=c.integer("max_target_positions"),
        source_positions=c.integer("max_source_positions"),
        mel_bins=bins,
    )


FAMILIES = {
    "blenderbot": bart,
    "blenderbot-small": bart,
    "m2m_100": bart,
    "plbart": bart,
    "whisper": whisper,
    "bart": bart,
    "bert": bert,
    "camembert": roberta,
    "data2vec-text": roberta,
    "ernie": bert,
    "eurobert": eurobert,
    "gte": rotary_bert,
    "jina_embeddings_v3": rotary_bert,
    "nomic_bert": rotary_bert,
    "deberta-v2": deberta_v2,
    "distilbert": distilbert,
    "electra": electra,
    "marian": bart,
    "mbart": bart,
    "modernbert": modernbert,
    "modernbert-decoder": modernbert_decoder,
    "mpnet": mpnet,
    "mt5": t5,
    "pegasus": bart,
    "roberta": roberta,
    "t5": t5,
    "umt5": t5,
    "xlm-roberta": roberta,
}
