"""Decoders of 2018 to 2023 with shapes of their own: OPT, BLOOM, Falcon, MPT, XGLM, Persimmon, GPT."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import (
    Weights,
    activation,
    conv1d,
    fused_qkv,
    grouped_query,
    layer,
    linear,
    norm,
    norms,
    plain,
)
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture, Mlp, TokenMixer, Weight

FAIRSEQ_OFFSET = 2  # OPT, XGLM and BioGPT keep fairseq's two extra positions


def opt(c: ModelConfig) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("enable_bias", True)
    width = c.integer("word_embed_proj_dim", hidden)
    affine, before = c.flag("layer_norm_elementwise_affine", True), c.flag("do_layer_norm_before")
    extra: Weights = (
        Weight(
            "model.decoder.embed_positions.weight",
            (c.integer("max_position_embeddings") + FAIRSEQ_OFFSET, hidden),
            "position",
        ),
    )
    if width != hidden:
        extra += linear("model.decoder.project_in", hidden, width) + linear("model.decoder.project_out", width, hidden)
    if before and not c.flag("_remove_final_layer_norm") and affine:
        extra += norm("model.decoder.final_layer_norm", hidden, True)
    two = norms(hidden, "self_attn_layer_norm", "final_layer_norm", bias=True) if affine else ()
    mixer = grouped_query(c, out="out_proj", bias=bias, out_bias=bias, rotary_fraction=0.0)
    mlp = plain(c, "fc1", "fc2", bias=bias, size=c.integer("ffn_dim"), dropout=c.number("dropout"))
    built = decoder(
        c,
        "OPTForCausalLM",
        lambda _: layer("OPTDecoderLayer", mixer, mlp, two, norm="layer"),
        prefix="model.decoder.",
        final_norm="",
        extra=extra,
        learned_positions=True,
        tied=True,
    )
    embedding = Weight(built.non_layer_weights[0].name, (built.vocab_size, width), "embedding")
    head = () if c.flag("tie_word_embeddings") else linear("lm_head", built.vocab_size, width, kind="head")
    return built._replace(non_layer_weights=(embedding, *built.non_layer_weights[1:], *head), tied_embeddings=not head)


def _without_rotary(hidden: int, heads: int, dropout: float = 0.0) -> TokenMixer:
    """Attention with one projection for queries, keys and values, and no rotary embedding."""
    size = hidden // heads
    return TokenMixer(heads=heads, kv_heads=heads, head_dim=size, fused_qkv=True, rotary_fraction=0.0, dropout=dropout)


def bloom(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("hidden_size"), c.integer("n_head")
    mixer = _without_rotary(hidden, heads, c.number("attention_dropout"))
    qkv = linear("self_attention.query_key_value", 3 * hidden, hidden, True) + linear(
        "self_attention.dense", hidden, hidden, True
    )
    mlp = plain(c, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", size=4 * hidden, dropout=c.number("hidden_dropout"))
    mlp = (mlp[0]._replace(activation="gelu"), mlp[1])
    return decoder(
        c,
        "BloomForCausalLM",
        lambda _: layer(
            "BloomBlock",
            (mixer, qkv),
            mlp,
            norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
            norm="layer",
        ),
        prefix="transformer.",
        embedding="word_embeddings",
        final_norm="ln_f",
        final_bias=True,
        extra=norm("transformer.word_embeddings_layernorm", hidden, True),
        embedding_norm=True,
    )


def falcon(c: ModelConfig) -> Architecture:
    hidden, heads, bias = c.integer("hidden_size"), c.integer("num_attention_heads"), c.flag("bias")
    dim, new = hidden // heads, c.flag("new_decoder_architecture")
    kv = _falcon_kv_heads(c, heads)
    mixer = TokenMixer(
        heads=heads,
        kv_heads=kv,
        head_dim=dim,
        fused_qkv=True,
        rotary_fraction=0.0 if c.flag("alibi") else 1.0,
        dropout=c.number("attention_dropout"),
    )
    qkv = linear("self_attention.query_key_value", (heads + 2 * kv) * dim, hidden, bias) + linear(
        "self_attention.dense", hidden, hidden, bias
    )
    size = c.integer("ffn_hidden_size", 4 * hidden)
    mlp, weights = plain(c, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", bias=bias, size=size)
    parallel = c.flag("parallel_attn", True)
    names = _falcon_norms(c, new, parallel)
    return decoder(
        c,
        "FalconForCausalLM",
        lambda _: layer(
            "FalconDecoderLayer",
            (mixer, qkv),
            (mlp._replace(activation=c.text("activation", "gelu"), dropout=c.number("hidden_dropout")), weights),
            norms(hidden, *names, bias=True),
            norm="layer",
            norms=len(names),
            parallel=new or parallel,
        ),
        prefix="transformer.",
        embedding="word_embeddings",
        final_norm="ln_f",
        final_bias=True,
    )


def _falcon_kv_heads(c: ModelConfig, heads: int) -> int:
    """modeling_falcon.py FalconAttention: grouped in the new architecture, one in multi-query, else all."""
    if c.flag("new_decoder_architecture"):
        return c.integer("num_kv_heads", heads)
    return 1 if c.flag("multi_query", True) else heads


def _falcon_norms(c: ModelConfig, new: bool, parallel: bool) -> tuple[str, ...]:
    if new and c.integer("num_ln_in_parallel_attn", 2) == 2:
        return "ln_attn", "ln_mlp"
    return ("input_layernorm",) if parallel else ("input_layernorm", "post_attention_layernorm")


def mpt(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("d_model"), c.integer("n_heads")
    clipped = c.mapping("attn_config")
    kv = clipped.get("kv_n_heads")
    if isinstance(kv, int) and kv not in (0, heads):
        return mpt(ModelConfig({**c.values, "attn_config": {}}, c.family, c.defaults, c.aliases))._replace(
            unmodelled="grouped-query MPT is not what transformers' class builds"
        )
    mixer = _without_rotary(hidden, heads)
    weights = linear("attn.Wqkv", 3 * hidden, hidden) + linear("attn.out_proj", hidden, hidden)
    size = 4 * hidden  # modeling_mpt.py MptMLP does not read expansion_ratio
    mlp = (
        Mlp("plain", size, "gelu"),
        linear("ffn.up_proj", size, hidden) + linear("ffn.down_proj", hidden, size),
    )
    return decoder(
        c,
        "MptForCausalLM",
        lambda _: layer("MptBlock", (mixer, weights), mlp, norms(hidden, "norm_1", "norm_2"), norm="layer"),
        prefix="transformer.",
        embedding="wte",
        final_norm="norm_f",
    )


def xglm(c: ModelConfig) -> Architecture:
    hidden = c.integer("d_model")
    mixer = grouped_query(c, out="out_proj", bias=True, out_bias=True, rotary_fraction=0.0)
    mlp = plain(c, "fc1", "fc2", size=c.integer("ffn_dim"), dropout=c.number("dropout"))
    return decoder(
        c,
        "XGLMForCausalLM",
        lambda _: layer(
            "XGLMDecoderLayer",
            mixer,
            mlp,
            norms(hidden, "self_attn_layer_norm", "final_layer_norm", bias=True),
            norm="layer",
        ),
        final_norm="layer_norm",
        final_bias=True,
        embedding_scale=c.flag("scale_embedding"),
    )


def biogpt(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    mixer = grouped_query(c, out="out_proj", bias=True, out_bias=True, rotary_fraction=0.0)
    mlp = plain(c, "fc1", "fc2", dropout=c.number("hidden_dropout_prob"))
    positions = Weight(
        "biogpt.embed_positions.weight", (c.integer("max_position_embeddings") + FAIRSEQ_OFFSET, hidden), "position"
    )
    return decoder(
        c,
        "BioGptForCausalLM",
        lambda _: layer(
            "BioGptDecoderLayer",
            mixer,
            mlp,
            norms(hidden, "self_attn_layer_norm", "final_layer_norm", bias=True),
            norm="layer",
        ),
        prefix="biogpt.",
        final_norm="layer_norm",
        final_bias=True,
        head="output_projection",
        extra=(positions,),
        learned_positions=True,
    )


def persimmon(c: ModelConfig) -> Architecture:
    hidden, dim = c.integer("hidden_size"), c.integer("hidden_size") // c.integer("num_attention_heads")
    mixer, weights = fused_qkv(c, "self_attn.query_key_value", "self_attn.dense", bias=True, out_bias=True)
    if c.flag("qk_layernorm"):
        weights += norms(dim, "self_attn.q_layernorm", "self_attn.k_layernorm", bias=True)
        mixer = mixer._replace(qk_norm="head")
    return decoder(
        c,
        "PersimmonForCausalLM",
        lambda _: layer(
            "PersimmonDecoderLayer",
            (mixer, weights),
            plain(c, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", dropout=c.number("hidden_dropout")),
            norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
            norm="layer",
        ),
        final_norm="final_layernorm",
        final_bias=True,
    )


def gpt_neox_japanese(c: ModelConfig) -> Architecture:
    hidden, count = c.integer("hidden_size"), c.layers()
    size = c.integer("intermediate_multiple_size", 4) * hidden
    heads = c.integer("num_attention_heads")
    mixer = TokenMixer(
        heads=heads,
        kv_heads=heads,
        head_dim=hidden // heads,
        fused_qkv=True,
        dropout=c.number("attention_dropout"),
    )
    qkv = linear("attention.query_key_value", 3 * hidden, hidden) + linear("attention.dense", hidden, hidden)
    last = (Weight("attention.dense_bias", (hidden,), "bias"),)
    mlp = (
        Mlp("plain", size, activation(c)),
        linear("mlp.dense_h_to_4h", size, hidden) + linear("mlp.dense_4h_to_h", hidden, size),
    )
    return decoder(
        c,
        "GPTNeoXJapaneseForCausalLM",
        lambda is_last: layer(
            "GPTNeoXJapaneseLayer",
            (mixer, qkv + last if is_last else qkv),
            mlp,
            norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
            norm="layer",
        ),
        [index == count - 1 for index in range(count)],
        prefix="gpt_neox_japanese.",
        embedding="embed_in",
        final_norm="final_layer_norm",
        final_bias=True,
    )


def openai_gpt(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("n_embd"), c.integer("n_head")
    mixer = _without_rotary(hidden, heads, c.number("attn_pdrop"))
    qkv = conv1d("attn.c_attn", hidden, 3 * hidden) + conv1d("attn.c_proj", hidden, hidden)
    act = {"gelu": "gelu_new"}.get(c.text("afn", "gelu"), c.text("afn"))  # models/openai/modeling_openai.py, ACT_FNS
    mlp = Mlp("plain", 4 * hidden, act, dropout=c.number("resid_pdrop"))
    fc = conv1d("mlp.c_fc", hidden, 4 * hidden) + conv1d("mlp.c_proj", 4 * hidden, hidden)
    positions = Weight("transformer.positions_embed.weight", (c.integer("n_positions"), hidden), "position")
    return decoder(
        c,
        "OpenAIGPTLMHeadModel",
        lambda _: layer("Block", (mixer, qkv), (mlp, fc), norms(hidden, "ln_1", "ln_2", bias=True), norm="layer"),
        prefix="transformer.",
        embedding="tokens_embed",
        final_norm="",
        extra=(positions,),
        learned_positions=True,
    )


FAMILIES = {
    "opt": opt,
    "bloom": bloom,
    "falcon": falcon,
    "mpt": mpt,
    "xglm": xglm,
    "biogpt": biogpt,
    "persimmon": persimmon,
    "gpt_neox_japanese": gpt_neox_japanese,
    "openai-gpt": openai_gpt,
}
