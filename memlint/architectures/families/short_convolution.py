"""Decoders that mix attention with short convolutions: LFM2 and LFM3.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. They are built as
those of `state_space` are.
"""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, grouped_query, head_size, layer, linear, mixture, norms
from memlint.architectures.config import MOST_LAYERS, ModelConfig
from memlint.architectures.families.state_space import MixerBlock, conv1d_depthwise
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer


def _short_conv(c: ModelConfig) -> MixerBlock:
    hidden, kernel, bias = c.integer("hidden_size"), c.integer("conv_L_cache"), c.flag("conv_bias")
    weights = (
        conv1d_depthwise("conv.conv", hidden, kernel, bias)
        + linear("conv.in_proj", 3 * hidden, hidden, bias)
        + linear("conv.out_proj", hidden, hidden, bias)
    )
    return TokenMixer("conv", conv_kernel=kernel, head_dim=hidden, heads=1), weights


def _lfm2_mlp(c: ModelConfig, adjusted: bool) -> tuple[Mlp, Weights]:
    size, hidden = c.integer("block_ff_dim", c.integer("intermediate_size")), c.integer("hidden_size")
    if adjusted and c.flag("block_auto_adjust_ff_dim"):
        size = int(c.number("block_ffn_dim_multiplier", 1.0) * int(2 * size / 3))
        multiple = c.integer("block_multiple_of", 256)
        size = multiple * ((size + multiple - 1) // multiple)
    weights = (
        linear("feed_forward.w1", size, hidden)
        + linear("feed_forward.w3", size, hidden)
        + linear("feed_forward.w2", hidden, size)
    )
    return Mlp("gated", size), weights


def _lfm2(c: ModelConfig, name: str, dense: int) -> Architecture:
    hidden = c.integer("hidden_size")
    kinds = c.items("layer_types")
    if not kinds:
        full = {str(index) for index in c.items("full_attn_idxs")} or {str(i) for i in range(c.layers())}
        kinds = ["full_attention" if str(i) in full else "conv" for i in range(c.layers())]

    def make(key: tuple[bool, bool]) -> DecoderLayer:
        if key[0]:
            mixer, weights = grouped_query(c, out="out_proj")
            weights += norms(head_size(c), "self_attn.q_layernorm", "self_attn.k_layernorm")
            block = mixer._replace(qk_norm="head"), weights
        else:
            block = _short_conv(c)
        mlp = _lfm2_mlp(c, dense >= len(kinds)) if key[1] else _lfm2_mixture(c)
        return layer(f"{name}DecoderLayer", block, mlp, norms(hidden, "operator_norm", "ffn_norm"))

    keys = [(kind == "full_attention", index < dense) for index, kind in enumerate(kinds)]
    tied = c.flag("tie_embedding", c.flag("tie_word_embeddings", True))
    return decoder(c, f"{name}ForCausalLM", make, keys, final_norm="embedding_norm", tied=tied)


def lfm3(c: ModelConfig) -> Architecture:
    """LFM3: LFM2's convolutions between attention with windows and without, a norm after each block, and a gate for
    each head (transformers 5.23 models/lfm3/modular_lfm3.py)."""
    hidden, gated_heads = c.integer("hidden_size"), c.flag("use_attention_gate", True)
    names: tuple[str, ...] = ("operator_norm", "ffn_norm")
    if c.flag("use_sandwich_norm", True):
        names = ("operator_norm", "post_operator_norm", "ffn_norm", "post_ffn_norm")
    turns = ("conv", "conv", "full_attention", "conv", "sliding_attention", "conv", "full_attention", "conv")
    kinds = c.items("layer_types") or [turns[index if index < 8 else index % 4 + 4] for index in range(c.layers())]

    def lfm3_layer(block: MixerBlock) -> DecoderLayer:
        mlp = _lfm2_mlp(c, False)
        return layer("Lfm3DecoderLayer", block, mlp, norms(hidden, *names), norms=len(names))

    def make(kind: str) -> DecoderLayer:
        if kind == "conv":
            return lfm3_layer(_short_conv(c))
        window = c.integer("sliding_window", 256) if kind == "sliding_attention" else 0
        mixer, weights = grouped_query(
            c, qk_norm="head", window=window, rotary_fraction=1.0, output_gate=gated_heads, head_gate=gated_heads
        )
        weights += linear("self_attn.g_proj", mixer.heads, hidden) if gated_heads else ()
        return lfm3_layer((mixer, weights))

    tied = c.flag("tie_embedding", c.flag("tie_word_embeddings", True))
    return decoder(c, "Lfm3ForCausalLM", make, kinds, final_norm="embedding_norm", tied=tied)


def _lfm2_mixture(c: ModelConfig) -> tuple[Mlp, Weights]:
    return mixture(
        c,
        experts=c.integer("num_experts"),
        per_token=c.integer("num_experts_per_tok"),
        size=c.integer("moe_intermediate_size"),
        prefix="feed_forward",
    )


def lfm2(c: ModelConfig) -> Architecture:
    return _lfm2(c, "Lfm2", MOST_LAYERS)


def lfm2_moe(c: ModelConfig) -> Architecture:
    return _lfm2(c, "Lfm2Moe", c.integer("num_dense_layers", 0, 0))


FAMILIES = {
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
}
