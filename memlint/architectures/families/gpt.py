"""The GPT line: LayerNorm, plain MLP, learned positions or early rotary embeddings."""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import (
    Weights,
    activation,
    conv1d,
    fused_qkv,
    grouped_query,
    head_size,
    layer,
    linear,
    norms,
    plain,
)
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight


def _positions(c: ModelConfig, name: str, count: int) -> Weights:
    return (Weight(name, (count, c.integer("hidden_size")), "position"),)


def gpt2(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("n_embd"), c.integer("n_head")
    inner = c.integer("n_inner", 4 * hidden)
    dropout = c.number("attn_pdrop")
    mixer = TokenMixer(
        heads=heads, kv_heads=heads, head_dim=hidden // heads, fused_qkv=True, rotary_fraction=0.0, dropout=dropout
    )
    qkv = conv1d("attn.c_attn", hidden, 3 * hidden) + conv1d("attn.c_proj", hidden, hidden)
    mlp = Mlp("plain", inner, activation(c), dropout=c.number("resid_pdrop"))
    fc = conv1d("mlp.c_fc", hidden, inner) + conv1d("mlp.c_proj", inner, hidden)
    normed = norms(hidden, "ln_1", "ln_2", bias=True)
    block = layer("GPT2Block", (mixer, qkv), (mlp, fc), normed, norm="layer")
    return _of_gpt2_blocks(c, "GPT2LMHeadModel", block)


def _of_gpt2_blocks(c: ModelConfig, class_name: str, block: DecoderLayer) -> Architecture:
    """`block` for every layer, between GPT-2's embeddings of tokens and positions and its last norm."""
    return decoder(
        c,
        class_name,
        lambda _: block,
        prefix="transformer.",
        embedding="wte",
        final_norm="ln_f",
        final_bias=True,
        extra=_positions(c, "transformer.wpe.weight", c.integer("n_positions")),
        learned_positions=True,
        embedding_dropout=c.number("embd_pdrop"),
    )


def gpt_bigcode(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("n_embd"), c.integer("n_head")
    size = c.integer("n_inner", 4 * hidden)
    mixer, qkv = fused_qkv(
        c,
        "attn.c_attn",
        "attn.c_proj",
        bias=True,
        out_bias=True,
        kv=1 if c.flag("multi_query") else heads,
        rotary_fraction=0.0,
        dropout=c.number("attn_pdrop"),
    )
    mlp = plain(c, "mlp.c_fc", "mlp.c_proj", size=size, dropout=c.number("resid_pdrop"))
    block = layer("GPTBigCodeBlock", (mixer, qkv), mlp, norms(hidden, "ln_1", "ln_2", bias=True), norm="layer")
    return _of_gpt2_blocks(c, "GPTBigCodeForCausalLM", block)


def gpt_neo(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("hidden_size"), c.integer("num_heads")
    mixer = TokenMixer(heads=heads, kv_heads=heads, head_dim=hidden // heads, rotary_fraction=0.0)
    attention: Weights = ()
    for name in ("k_proj", "v_proj", "q_proj"):
        attention += linear(f"attn.attention.{name}", hidden, hidden)
    attention += linear("attn.attention.out_proj", hidden, hidden, True)
    size = c.integer("intermediate_size", 4 * hidden)
    windows = _neo_windows(c)
    return decoder(
        c,
        "GPTNeoForCausalLM",
        lambda window: layer(
            "GPTNeoBlock",
            (mixer._replace(sliding_window=window), attention),
            plain(c, "mlp.c_fc", "mlp.c_proj", size=size),
            norms(hidden, "ln_1", "ln_2", bias=True),
            norm="layer",
        ),
        windows,
        prefix="transformer.",
        embedding="wte",
        final_norm="ln_f",
        final_bias=True,
        extra=_positions(c, "transformer.wpe.weight", c.integer("max_position_embeddings")),
        learned_positions=True,
    )


def _neo_windows(c: ModelConfig) -> list[int]:
    """`attention_types` such as [[["global", "local"], 12]] written out."""
    kinds: list[str] = []
    for item in c.items("attention_types"):
        if isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[1], int) and 0 < item[1] < 1024:
            kinds += list(item[0]) * item[1] if isinstance(item[0], (list, tuple)) else []
    window = c.integer("window_size", 256)
    return [window if kind == "local" else 0 for kind in (kinds + ["global"] * c.layers("num_layers"))][
        : c.layers("num_layers")
    ]


def gpt_neox(c: ModelConfig) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("attention_bias", True)
    mixer = fused_qkv(c, "attention.query_key_value", "attention.dense", bias=bias, out_bias=bias)
    mlp = plain(c, "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", dropout=c.number("hidden_dropout"))
    return decoder(
        c,
        "GPTNeoXForCausalLM",
        lambda _: layer(
            "GPTNeoXLayer",
            mixer,
            mlp,
            norms(hidden, "input_layernorm", "post_attention_layernorm", bias=True),
            norm="layer",
            parallel=c.flag("use_parallel_residual"),
        ),
        prefix="gpt_neox.",
        embedding="embed_in",
        final_norm="final_layer_norm",
        final_bias=True,
    )


def gptj(c: ModelConfig) -> Architecture:
    hidden = c.integer("n_embd")
    fraction = c.integer("rotary_dim", head_size(c)) / head_size(c)
    mixer, weights = grouped_query(
        c, prefix="attn", out="out_proj", rotary_fraction=fraction, dropout=c.number("attn_pdrop")
    )
    mlp = plain(c, "mlp.fc_in", "mlp.fc_out", size=c.integer("n_inner", 4 * hidden), dropout=c.number("resid_pdrop"))
    return _parallel_gpt(c, "GPTJForCausalLM", "GPTJBlock", (mixer, weights), mlp)


def codegen(c: ModelConfig) -> Architecture:
    hidden = c.integer("n_embd")
    fraction = c.integer("rotary_dim", head_size(c)) / head_size(c)
    mixer = fused_qkv(c, "attn.qkv_proj", "attn.out_proj", rotary_fraction=fraction, dropout=c.number("attn_pdrop"))
    mlp = plain(c, "mlp.fc_in", "mlp.fc_out", size=c.integer("n_inner", 4 * hidden), dropout=c.number("resid_pdrop"))
    return _parallel_gpt(c, "CodeGenForCausalLM", "CodeGenBlock", mixer, mlp)


def _parallel_gpt(
    c: ModelConfig, class_name: str, block: str, mixer: tuple[TokenMixer, Weights], mlp: tuple[Mlp, Weights]
) -> Architecture:
    """One norm, attention and MLP side by side."""
    return decoder(
        c,
        class_name,
        lambda _: layer(
            block, mixer, mlp, norms(c.integer("hidden_size"), "ln_1", bias=True), norm="layer", norms=1, parallel=True
        ),
        prefix="transformer.",
        embedding="wte",
        final_norm="ln_f",
        final_bias=True,
        head_bias=True,
        embedding_dropout=c.number("embd_pdrop"),
    )


def starcoder2(c: ModelConfig) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("use_bias")
    layer_norm = c.text("norm_type", "layer_norm") == "layer_norm"
    window = c.integer("sliding_window", 0, 0)
    return decoder(
        c,
        "Starcoder2ForCausalLM",
        lambda _: layer(
            "Starcoder2DecoderLayer",
            grouped_query(c, bias=bias, out_bias=bias, window=window),
            plain(c, "mlp.c_fc", "mlp.c_proj", bias=bias, dropout=c.number("residual_dropout")),
            norms(hidden, "input_layernorm", "post_attention_layernorm", bias=layer_norm),
            norm="layer",
        ),
        final_bias=True,
        embedding_dropout=c.number("embedding_dropout"),
    )


def phi(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    mixer, weights = grouped_query(c, bias=True, out_bias=True, out="dense")
    if c.flag("qk_layernorm"):
        weights += norms(head_size(c), "self_attn.q_layernorm", "self_attn.k_layernorm", bias=True)
        mixer = mixer._replace(qk_norm="head")
    return decoder(
        c,
        "PhiForCausalLM",
        lambda _: layer(
            "PhiDecoderLayer",
            (mixer, weights),
            plain(c, "mlp.fc1", "mlp.fc2", dropout=c.number("resid_pdrop")),
            norms(hidden, "input_layernorm", bias=True),
            norm="layer",
            norms=1,
            parallel=True,
        ),
        final_norm="final_layernorm",
        final_bias=True,
        head_bias=True,
        embedding_dropout=c.number("embd_pdrop"),
    )


FAMILIES = {
    "gpt2": gpt2,
    "gpt-sw3": gpt2,
    "gpt_bigcode": gpt_bigcode,
    "gpt_neo": gpt_neo,
    "gpt_neox": gpt_neox,
    "gptj": gptj,
    "codegen": codegen,
    "starcoder2": starcoder2,
    "phi": phi,
}
