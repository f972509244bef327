"""Decoders that mix attention with state-space layers, and pure state-space models.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. Read `jamba` first.
`keys` says of each layer what it is (here: whether it attends, whether it has experts), and `make` turns such a key
into a layer: what mixes the tokens (`grouped_query` for attention, `mamba1`, `mamba2`), an MLP and norms, each with its
weights. Layers with equal keys are one `DecoderLayer` that is repeated.
"""

from __future__ import annotations

import math
from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, layer, linear, mixture, norm, norms, plain
from memlint.architectures.config import MOST_LAYERS, ModelConfig
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight

TWO = ("input_layernorm", "post_attention_layernorm")
MixerBlock = tuple[TokenMixer, Weights]
SCAN = "what the state-space scan keeps for the backward depends on the kernels installed"


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


FAMILIES = {
    "bamba": bamba,
    "falcon_h1": falcon_h1,
    "falcon_mamba": pure_mamba,
    "granitemoehybrid": granitemoehybrid,
    "jamba": jamba,
    "mamba": pure_mamba,
    "mamba2": pure_mamba2,
    "nemotron_h": nemotron_h,
}
