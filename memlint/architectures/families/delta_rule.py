"""Decoders that mix attention with layers of linear attention by the gated delta rule.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. They are built as
those of `state_space` are.
"""

from __future__ import annotations

from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import (
    Weights,
    gated,
    grouped_query,
    head_size,
    latent,
    layer,
    linear,
    mixture,
    norm,
    norms,
)
from memlint.architectures.config import ModelConfig
from memlint.architectures.families.latent import dense_first, shared_mixture
from memlint.architectures.families.state_space import TWO, MixerBlock, conv1d_depthwise
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight

DELTA = "what the gated delta rule keeps for the backward depends on the kernels installed"


def delta_net(c: ModelConfig, *, fused: bool) -> MixerBlock:
    """Qwen's gated delta net; Qwen3-Next projects q, k, v, z and b, a together, Qwen3.5 apart."""
    hidden = c.integer("hidden_size")
    key_heads, value_heads = c.integer("linear_num_key_heads"), c.integer("linear_num_value_heads")
    key_dim, value_dim = c.integer("linear_key_head_dim"), c.integer("linear_value_head_dim")
    keys, values, kernel = key_heads * key_dim, value_heads * value_dim, c.integer("linear_conv_kernel_dim")
    if fused:
        projections = linear("linear_attn.in_proj_qkvz", 2 * keys + 2 * values, hidden) + linear(
            "linear_attn.in_proj_ba", 2 * value_heads, hidden
        )
    else:
        projections = (
            linear("linear_attn.in_proj_qkv", 2 * keys + values, hidden)
            + linear("linear_attn.in_proj_z", values, hidden)
            + linear("linear_attn.in_proj_b", value_heads, hidden)
            + linear("linear_attn.in_proj_a", value_heads, hidden)
        )
    weights = (
        Weight("linear_attn.dt_bias", (value_heads,), "other"),
        Weight("linear_attn.A_log", (value_heads,), "other"),
        *conv1d_depthwise("linear_attn.conv1d", 2 * keys + values, kernel, False),
        *projections,
        *norm("linear_attn.norm", value_dim),
        *linear("linear_attn.out_proj", hidden, values),
    )
    return _delta_mixer(key_heads, value_heads, key_dim, value_dim, kernel), weights


def _delta_mixer(key_heads: int, value_heads: int, key_dim: int, value_dim: int, kernel: int) -> TokenMixer:
    """A gated delta net that works in chunks of 64 tokens. The sizes are of one head."""
    return TokenMixer(
        "gated_delta",
        heads=value_heads,
        kv_heads=key_heads,
        head_dim=key_dim,
        value_head_dim=value_dim,
        conv_kernel=kernel,
        output_gate=True,
        chunk_size=64,
    )


def olmo_hybrid(c: ModelConfig) -> Architecture:
    """OLMo Hybrid: a gated delta net with seven projections behind a norm, and OLMo 3's attention before its norms."""
    hidden, bias, count = c.integer("hidden_size"), c.flag("attention_bias"), c.layers()
    rotated = bool(c.mapping("rope_parameters"))

    def make(attends: bool) -> DecoderLayer:
        if not attends:
            names = ("input_layernorm", "post_attention_layernorm")
            net = _olmo_delta_net(c)
            return layer("OlmoHybridLinearAttentionDecoderLayer", net, gated(c), norms(hidden, *names))
        names = ("post_attention_layernorm", "post_feedforward_layernorm")
        mixer = grouped_query(c, bias=bias, out_bias=bias, qk_norm="full", rotary_fraction=float(rotated))
        return layer("OlmoHybridAttentionDecoderLayer", mixer, gated(c), norms(hidden, *names))

    kinds = [str(kind) for kind in c.items("layer_types")]
    attends = [kind == "full_attention" for kind in kinds] or [index % 4 == 3 for index in range(count)]
    if count < 4 and not kinds:
        attends[-1] = True
    return decoder(c, "OlmoHybridForCausalLM", make, attends)


def _olmo_delta_net(c: ModelConfig) -> MixerBlock:
    hidden, heads = c.integer("hidden_size"), c.integer("num_attention_heads")
    key_heads, value_heads = c.integer("linear_num_key_heads", heads), c.integer("linear_num_value_heads", heads)
    key_dim = c.integer("linear_key_head_dim", int(0.75 * hidden / key_heads))
    value_dim, kernel = c.integer("linear_value_head_dim", 2 * key_dim), c.integer("linear_conv_kernel_dim", 4)
    keys, values = key_heads * key_dim, value_heads * value_dim
    weights = (
        Weight("linear_attn.A_log", (value_heads,), "other"),
        Weight("linear_attn.dt_bias", (value_heads,), "other"),
        *linear("linear_attn.q_proj", keys, hidden),
        *linear("linear_attn.k_proj", keys, hidden),
        *linear("linear_attn.v_proj", values, hidden),
        *linear("linear_attn.a_proj", value_heads, hidden),
        *linear("linear_attn.b_proj", value_heads, hidden),
        *linear("linear_attn.g_proj", values, hidden),
        *linear("linear_attn.o_proj", hidden, values),
        *conv1d_depthwise("linear_attn.conv1d", 2 * keys + values, kernel, False),
        *norm("linear_attn.o_norm", value_dim),
    )
    return _delta_mixer(key_heads, value_heads, key_dim, value_dim, kernel), weights


def gated_attention(c: ModelConfig) -> MixerBlock:
    """Attention whose query projection also gives an output gate (Qwen3-Next)."""
    hidden, heads, dim = c.integer("hidden_size"), c.integer("num_attention_heads"), head_size(c)
    kv, bias = c.integer("num_key_value_heads"), c.flag("attention_bias")
    weights = (
        linear("self_attn.q_proj", 2 * heads * dim, hidden, bias)
        + linear("self_attn.k_proj", kv * dim, hidden, bias)
        + linear("self_attn.v_proj", kv * dim, hidden, bias)
        + linear("self_attn.o_proj", hidden, heads * dim, bias)
        + norms(dim, "self_attn.q_norm", "self_attn.k_norm")
    )
    fraction = c.number("partial_rotary_factor", 0.25)
    mixer = TokenMixer(
        heads=heads, kv_heads=kv, head_dim=dim, qk_norm="head", output_gate=True, rotary_fraction=fraction
    )
    return mixer, weights


def attends(c: ModelConfig, every: int = 4) -> list[bool]:
    """Which layers are attention: `layer_types`, else every `full_attention_interval`-th."""
    kinds = c.items("layer_types")
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    every = c.integer("full_attention_interval", every)
    return [(index + 1) % every == 0 for index in range(c.layers())]


def _shared_gate_mixture(c: ModelConfig) -> tuple[Mlp, Weights]:
    return mixture(
        c,
        experts=c.integer("num_experts"),
        per_token=c.integer("num_experts_per_tok"),
        size=c.integer("moe_intermediate_size"),
        shared=c.integer("shared_expert_intermediate_size"),
        shared_name="shared_expert",
        extra=linear("mlp.shared_expert_gate", 1, c.integer("hidden_size")),
    )


def _qwen_hybrid(c: ModelConfig, name: str, *, fused: bool, sparse: list[bool], **traits: Any) -> Architecture:
    hidden = c.integer("hidden_size")

    def make(key: tuple[bool, bool]) -> DecoderLayer:
        mixer = gated_attention(c) if key[0] else delta_net(c, fused=fused)
        mlp = _shared_gate_mixture(c) if key[1] else gated(c)
        return layer(f"{name}DecoderLayer", mixer, mlp, norms(hidden, *TWO), norm="rms_gemma")

    return decoder(c, f"{name}ForCausalLM", make, list(zip(attends(c), sparse)), **traits)


def qwen3_next(c: ModelConfig) -> Architecture:
    step, dense = c.integer("decoder_sparse_step", 1), set(map(str, c.items("mlp_only_layers")))
    sparse = [
        c.integer("num_experts", 0, 0) > 0 and str(i) not in dense and (i + 1) % step == 0 for i in range(c.layers())
    ]
    return _qwen_hybrid(c, "Qwen3Next", fused=True, sparse=sparse)


def qwen3_5_text(c: ModelConfig) -> Architecture:
    return _qwen_hybrid(c, "Qwen3_5", fused=False, sparse=[False] * c.layers())


def qwen3_5_moe_text(c: ModelConfig) -> Architecture:
    return _qwen_hybrid(c, "Qwen3_5Moe", fused=False, sparse=[True] * c.layers())


def kimi_linear(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    facts = c.mapping("linear_attn_config")
    inner = ModelConfig({**facts}, c.family)
    heads = inner.integer("num_heads", c.integer("linear_num_heads", 32))
    dim = inner.integer("head_dim", c.integer("linear_head_dim", 128))
    kernel = inner.integer("short_conv_kernel_size", c.integer("linear_conv_kernel_dim", 4))
    wide = heads * dim
    delta = (
        linear("self_attn.q_proj", wide, hidden)
        + linear("self_attn.k_proj", wide, hidden)
        + linear("self_attn.v_proj", wide, hidden)
        + conv1d_depthwise("self_attn.conv1d", 3 * wide, kernel, False)
        + (
            Weight("self_attn.forget_gate.dt_bias", (wide,), "other"),
            Weight("self_attn.forget_gate.A_log", (1, 1, heads, 1), "other"),
        )
        + linear("self_attn.forget_gate.f_a_proj", dim, hidden)
        + linear("self_attn.forget_gate.f_b_proj", wide, dim)
        + linear("self_attn.b_proj", heads, hidden)
        + linear("self_attn.g_a_proj", dim, hidden)
        + linear("self_attn.g_b_proj", wide, dim)
        + norm("self_attn.o_norm", dim)
        + linear("self_attn.o_proj", hidden, wide)
    )
    mixer = TokenMixer("gated_delta", heads=heads, kv_heads=heads, head_dim=dim, conv_kernel=kernel, output_gate=True)
    moe = shared_mixture(
        ModelConfig(
            {
                **c.values,
                "n_routed_experts": c.integer("num_local_experts"),
                "n_shared_experts": c.integer("n_shared_experts"),
            },
            c.family,
            c.defaults,
            c.aliases,
        )
    )

    def make(key: tuple[bool, str]) -> DecoderLayer:
        block = latent(c) if key[0] else (mixer, delta)
        return layer("KimiLinearDecoderLayer", block, moe if key[1] == "sparse" else gated(c), norms(hidden, *TWO))

    kinds = dense_first(c, c.integer("first_k_dense_replace", 1, 0))
    return decoder(c, "KimiLinearForCausalLM", make, list(zip(_kimi_attends(c, facts), kinds)), unmodelled=DELTA)


def _kimi_attends(c: ModelConfig, facts: Any) -> list[bool]:
    """`layer_types`, or the original config's 1-based `full_attn_layers`; else every fourth layer after the first."""
    if c.items("layer_types"):
        return [kind == "full_attention" for kind in c.items("layer_types")]
    listed = facts.get("full_attn_layers")
    if isinstance(listed, list):
        return [index + 1 in listed for index in range(c.layers())]
    return [index % 4 == 0 and index > 0 for index in range(c.layers())]


FAMILIES = {
    "olmo_hybrid": olmo_hybrid,
    "kimi_linear": kimi_linear,
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_5_moe_text": qwen3_5_moe_text,
}
