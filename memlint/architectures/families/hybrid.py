"""Decoders that mix attention with state-space, linear-attention or convolution layers.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. Read `jamba` first.
`keys` says of each layer what it is (here: whether it attends, whether it has experts), and `make` turns such a key
into a layer: what mixes the tokens (`grouped_query` for attention, `mamba1`, `mamba2`, `delta_net`, `_short_conv`), an
MLP and norms, each with its weights. Layers with equal keys are one `DecoderLayer` that is repeated.
"""

from __future__ import annotations

import math
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
    plain,
)
from memlint.architectures.config import MOST_LAYERS, ModelConfig
from memlint.architectures.families.latent import dense_first, shared_mixture
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight

TWO = ("input_layernorm", "post_attention_layernorm")
MixerBlock = tuple[TokenMixer, Weights]
SCAN = "what the state-space scan keeps for the backward depends on the kernels installed"
DELTA = "what the gated delta rule keeps for the backward depends on the kernels installed"


def conv1d_depthwise(name: str, channels: int, kernel: int, bias: bool) -> Weights:
    weight = Weight(f"{name}.weight", (channels, 1, kernel), "conv")
    return (weight, Weight(f"{name}.bias", (channels,), "bias")) if bias else (weight,)


def mamba1(c: ModelConfig, prefix: str, inner: int, *, inner_norms: bool = False) -> MixerBlock:
    """Mamba with a selective scan over `inner` channels."""
    hidden = c.integer("hidden_size")
    state = c.integer("mamba_d_state", c.integer("state_size", 16))
    kernel = c.integer("mamba_d_conv", c.integer("conv_kernel", 4))
    rank = _rank(c)
    conv_bias = c.flag("mamba_conv_bias", c.flag("use_conv_bias", True))
    bias = c.flag("mamba_proj_bias", c.flag("use_bias"))
    weights = (
        Weight(f"{prefix}.A_log", (inner, state), "other"),
        Weight(f"{prefix}.D", (inner,), "other"),
        *conv1d_depthwise(f"{prefix}.conv1d", inner, kernel, conv_bias),
        *linear(f"{prefix}.in_proj", 2 * inner, hidden, bias),
        *linear(f"{prefix}.x_proj", rank + 2 * state, inner),
        *linear(f"{prefix}.dt_proj", inner, rank, True),
        *linear(f"{prefix}.out_proj", hidden, inner, bias),
    )
    if inner_norms:
        weights += norm(f"{prefix}.dt_layernorm", rank)
        weights += norms(state, f"{prefix}.b_layernorm", f"{prefix}.c_layernorm")
    return TokenMixer("mamba", heads=inner, head_dim=1, state_size=state, conv_kernel=kernel), weights


def _rank(c: ModelConfig) -> int:
    for name in ("mamba_dt_rank", "time_step_rank"):
        if isinstance(c.get(name), int):
            return c.integer(name)
    return math.ceil(c.integer("hidden_size") / 16)


def mamba2(
    c: ModelConfig,
    prefix: str,
    *,
    inner: int,
    heads: int,
    groups: int,
    state: int,
    kernel: int,
    bias: bool,
    conv_bias: bool,
    gated_norm: bool = True,
    out_bias: bool | None = None,
    chunk: int = 256,
) -> MixerBlock:
    """Mamba 2: `heads` scalar decays over `inner` channels."""
    hidden, channels = c.integer("hidden_size"), inner + 2 * groups * state
    weights = (
        Weight(f"{prefix}.dt_bias", (heads,), "other"),
        Weight(f"{prefix}.A_log", (heads,), "other"),
        Weight(f"{prefix}.D", (heads,), "other"),
        *conv1d_depthwise(f"{prefix}.conv1d", channels, kernel, conv_bias),
        *linear(f"{prefix}.in_proj", inner + channels + heads, hidden, bias),
        *(norm(f"{prefix}.norm", inner) if gated_norm else ()),
        *linear(f"{prefix}.out_proj", hidden, inner, bias if out_bias is None else out_bias),
    )
    mixer = TokenMixer(
        "mamba2", heads=heads, kv_heads=groups, head_dim=inner // heads, state_size=state, conv_kernel=kernel
    )
    return mixer._replace(chunk_size=chunk, gated_norm=gated_norm), weights


def _mamba2_of(c: ModelConfig, prefix: str, inner: int, **traits: Any) -> MixerBlock:
    """Mamba 2 with the field names of Bamba, Granite and Falcon-H1."""
    return mamba2(
        c,
        prefix,
        inner=inner,
        heads=c.integer("mamba_n_heads"),
        groups=c.integer("mamba_n_groups"),
        state=c.integer("mamba_d_state"),
        kernel=c.integer("mamba_d_conv"),
        bias=c.flag("mamba_proj_bias"),
        conv_bias=c.flag("mamba_conv_bias", True),
        chunk=c.integer("mamba_chunk_size", 256),
        **traits,
    )


def pure_mamba(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    inner = c.integer("intermediate_size", c.integer("expand", 2) * hidden)
    class_name = "FalconMamba" if c.family == "falcon_mamba" else "Mamba"
    return decoder(
        c,
        f"{class_name}ForCausalLM",
        lambda _: layer(
            f"{class_name}Block", mamba1(c, "mixer", inner), (Mlp("none"), ()), norm("norm", hidden), norms=1
        ),
        prefix="backbone.",
        embedding="embeddings",
        final_norm="norm_f",
        unmodelled=SCAN,
    )


def pure_mamba2(c: ModelConfig) -> Architecture:
    hidden = c.integer("hidden_size")
    inner = int(c.number("expand", 2) * hidden)
    mixer = mamba2(
        c,
        "mixer",
        inner=inner,
        heads=c.integer("num_heads"),
        groups=c.integer("n_groups"),
        state=c.integer("state_size"),
        kernel=c.integer("conv_kernel"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias", True),
        chunk=c.integer("chunk_size", 256),
    )
    return decoder(
        c,
        "Mamba2ForCausalLM",
        lambda _: layer("Mamba2Block", mixer, (Mlp("none"), ()), norm("norm", hidden), norms=1),
        prefix="backbone.",
        embedding="embeddings",
        final_norm="norm_f",
    )


def jamba(c: ModelConfig) -> Architecture:
    hidden, count = c.integer("hidden_size"), c.layers()
    experts = c.integer("num_experts")
    every, first = c.integer("attn_layer_period"), c.integer("attn_layer_offset", 0, 0)
    expert_every, expert_first = c.integer("expert_layer_period"), c.integer("expert_layer_offset", 0, 0)
    inner = c.integer("mamba_expand") * hidden

    def make(key: tuple[bool, bool]) -> DecoderLayer:
        mixer = grouped_query(c, rotary_fraction=0.0) if key[0] else mamba1(c, "mamba", inner, inner_norms=True)
        moe = mixture(
            c,
            experts=experts,
            per_token=c.integer("num_experts_per_tok"),
            size=c.integer("intermediate_size"),
            prefix="feed_forward",
            router="router",
        )
        name = "JambaAttentionDecoderLayer" if key[0] else "JambaMambaDecoderLayer"
        mlp = moe if key[1] and experts > 1 else gated(c, prefix="feed_forward")
        return layer(name, mixer, mlp, norms(hidden, "input_layernorm", "pre_ff_layernorm"))

    keys = [(i % every == first, i % expert_every == expert_first) for i in range(count)]
    return decoder(c, "JambaForCausalLM", make, keys, final_norm="final_layernorm", unmodelled=SCAN)


def bamba(c: ModelConfig) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("attention_bias")
    attending = {str(index) for index in c.items("attn_layer_indices")}

    def make(attends: bool) -> DecoderLayer:
        inner = int(c.number("mamba_expand", 2) * hidden)
        mixer = grouped_query(c, bias=bias, out_bias=bias) if attends else _mamba2_of(c, "mamba", inner)
        mlp = gated(c, prefix="feed_forward", bias=c.flag("mlp_bias"))
        return layer("BambaDecoderLayer", mixer, mlp, norms(hidden, "input_layernorm", "pre_ff_layernorm"))

    keys = [str(index) in attending for index in range(c.layers())]
    return decoder(c, "BambaForCausalLM", make, keys, final_norm="final_layernorm")


def falcon_h1(c: ModelConfig) -> Architecture:
    """Attention and Mamba 2 side by side in every layer."""
    hidden, bias = c.integer("hidden_size"), c.flag("attention_bias")
    inner = c.integer("mamba_d_ssm", int(c.number("mamba_expand", 2) * hidden))
    mixer, weights = grouped_query(c, bias=bias, out_bias=bias)
    scan, more = _mamba2_of(c, "mamba", inner, gated_norm=c.flag("mamba_rms_norm"), out_bias=c.flag("projectors_bias"))
    made = layer(
        "FalconH1DecoderLayer",
        (mixer, weights + more),
        gated(c, prefix="feed_forward", bias=c.flag("mlp_bias")),
        norms(hidden, "input_layernorm", "pre_ff_layernorm"),
    )
    return decoder(
        c,
        "FalconH1ForCausalLM",
        lambda _: made._replace(parallel_ssm=scan),
        final_norm="final_layernorm",
        embedding_scale=True,
        logits_scale=True,
    )


def granitemoehybrid(c: ModelConfig) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("attention_bias")
    experts, shared = c.integer("num_local_experts", 0, 0), c.integer("shared_intermediate_size")
    kinds = c.items("layer_types") or ["linear_attention"] * c.layers()
    fused = linear("shared_mlp.input_linear", 2 * shared, hidden) + linear("shared_mlp.output_linear", hidden, shared)

    def make(attends: bool) -> DecoderLayer:
        inner = int(c.number("mamba_expand", 2) * hidden)
        mixer = (
            grouped_query(c, bias=bias, out_bias=bias, rotary_fraction=_granite_rotary(c))
            if attends
            else _mamba2_of(c, "mamba", inner)
        )
        mlp: Mlp = Mlp("gated", shared, fused_gate_up=True, shared_intermediate_size=shared)
        weights: Weights = fused
        if experts:
            mlp, routed = mixture(
                c,
                experts=experts,
                per_token=c.integer("num_experts_per_tok"),
                size=c.integer("intermediate_size"),
                prefix="block_sparse_moe",
                router="router",
            )
            mlp, weights = mlp._replace(shared_intermediate_size=shared), routed + fused
        return layer("GraniteMoeHybridDecoderLayer", mixer, (mlp, weights), norms(hidden, *TWO), residual_scale=True)

    return decoder(
        c,
        "GraniteMoeHybridForCausalLM",
        make,
        [kind in ("attention", "full_attention") for kind in kinds],
        embedding_scale=True,
        logits_scale=True,
    )


def _granite_rotary(c: ModelConfig) -> float:
    return 1.0 if c.text("position_embedding_type") == "rope" else 0.0


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


def nemotron_h(c: ModelConfig) -> Architecture:
    """One mixer a layer: Mamba 2, attention, an MLP or a mixture."""
    hidden = c.integer("hidden_size")
    kinds = _nemotron_kinds(c)

    def make(kind: str) -> DecoderLayer:
        mixer: MixerBlock = (TokenMixer("none"), ())
        mlp: tuple[Mlp, Weights] = (Mlp("none"), ())
        if kind in ("linear_attention", "mamba"):
            mixer = _nemotron_mamba(c)
        elif kind in ("full_attention", "attention"):
            bias = c.flag("attention_bias")
            mixer = grouped_query(c, prefix="mixer", bias=bias, out_bias=bias, rotary_fraction=0.0)
        elif kind == "moe":
            mlp = _nemotron_mixture(c)
        else:
            mlp = plain(c, "mixer.up_proj", "mixer.down_proj", bias=c.flag("mlp_bias"))
        return layer("NemotronHBlock", mixer, mlp, norm("norm", hidden), norms=1)

    return decoder(
        c,
        "NemotronHForCausalLM",
        make,
        kinds,
        embedding="embeddings",
        final_norm="norm_f",
    )


def _nemotron_kinds(c: ModelConfig) -> list[str]:
    letters = {"M": "linear_attention", "E": "moe", "*": "full_attention", "-": "mlp"}
    listed = [str(kind) for kind in c.items("layer_types") or c.items("layers_block_type")]
    pattern = c.text("hybrid_override_pattern")
    if listed or not pattern:
        return listed or ["linear_attention", "moe", "full_attention", "mlp"]
    return [letters[letter] for letter in pattern[:MOST_LAYERS]]


def _nemotron_mamba(c: ModelConfig) -> MixerBlock:
    heads, dim = c.integer("mamba_num_heads"), c.integer("mamba_head_dim")
    return mamba2(
        c,
        "mixer",
        inner=heads * dim,
        heads=heads,
        groups=c.integer("n_groups"),
        state=c.integer("ssm_state_size"),
        kernel=c.integer("conv_kernel"),
        bias=c.flag("use_bias"),
        conv_bias=c.flag("use_conv_bias", True),
        chunk=c.integer("chunk_size", 128),
    )


def _nemotron_mixture(c: ModelConfig) -> tuple[Mlp, Weights]:
    """Experts without gate; with `moe_latent_size` they work in a smaller space."""
    hidden, experts, size = c.integer("hidden_size"), c.integer("n_routed_experts"), c.integer("moe_intermediate_size")
    width = c.integer("moe_latent_size", hidden)
    shared, bias = c.integer("moe_shared_expert_intermediate_size"), c.flag("mlp_bias")
    weights = (
        Weight("mixer.experts.up_proj", (experts, size, width), "experts"),
        Weight("mixer.experts.down_proj", (experts, width, size), "experts"),
        *linear("mixer.gate", experts, hidden, kind="router"),
        *linear("mixer.shared_experts.up_proj", shared, hidden, bias),
        *linear("mixer.shared_experts.down_proj", hidden, shared, bias),
    )
    if c.get("moe_latent_size") is not None:
        weights += linear("mixer.fc1_latent_proj", width, hidden, bias)
        weights += linear("mixer.fc2_latent_proj", hidden, width, bias)
    mlp = Mlp(
        "moe",
        size,
        c.text("mlp_hidden_act", "relu2"),
        experts=experts,
        experts_per_token=c.integer("num_experts_per_tok"),
        expert_intermediate_size=size,
        expert_kind="plain",
        expert_hidden_size=0 if c.get("moe_latent_size") is None else width,
        shared_intermediate_size=shared,
    )
    return mlp, weights


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
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "falcon_mamba": pure_mamba,
    "granitemoehybrid": granitemoehybrid,
    "jamba": jamba,
    "kimi_linear": kimi_linear,
    "lfm2": lfm2,
    "lfm2_moe": lfm2_moe,
    "lfm3": lfm3,
    "mamba": pure_mamba,
    "mamba2": pure_mamba2,
    "nemotron_h": nemotron_h,
    "qwen3_next": qwen3_next,
    "qwen3_5_text": qwen3_5_text,
    "qwen3_5_moe_text": qwen3_5_moe_text,
}
