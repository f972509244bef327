"""Mixtures of experts whose attention differs from layer to layer, or from what `experts.sparse` builds.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. Those whose layers
differ in more than attention and experts call `decoder` with a function that makes a layer.
"""

from __future__ import annotations

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import gated, grouped_query, layer, linear, mixture, norms
from memlint.architectures.config import LARGEST_EXTENT, ModelConfig, UnsupportedConfig
from memlint.architectures.families.experts import TWO, MixerBlock, plain_mixture, sparse
from memlint.architectures.families.latent import dense_first
from memlint.architectures.model import Architecture, Mlp, TokenMixer, Weight
from memlint.architectures.windows import alternating, window_size, windows


def mimo_v2_flash(c: ModelConfig) -> Architecture:
    """Sliding layers have twice the key and value heads and attention sinks."""
    bias, hidden, heads = c.flag("attention_bias"), c.integer("hidden_size"), c.integer("num_attention_heads")
    dim, value, kv = c.integer("head_dim"), c.integer("v_head_dim"), c.integer("num_key_value_heads")
    moe = plain_mixture(c, count="n_routed_experts", size="moe_intermediate_size")

    def attention(window: int) -> MixerBlock:
        own = kv * 2 if window else kv
        weights = (
            linear("self_attn.q_proj", heads * dim, hidden, bias)
            + linear("self_attn.k_proj", own * dim, hidden, bias)
            + linear("self_attn.v_proj", own * value, hidden, bias)
            + linear("self_attn.o_proj", hidden, heads * value)
        )
        sinks = (Weight("self_attn.sinks", (heads,), "other"),) if window else ()
        mixer = TokenMixer(
            heads=heads,
            kv_heads=own,
            head_dim=dim,
            value_head_dim=value,
            sliding_window=window,
            sinks=bool(window),
            rotary_fraction=0.334,
        )
        return mixer, weights + sinks

    window = window_size(c)
    spans = [0 if i == 0 or (i + 1) % 6 == 0 else window for i in range(c.layers())]
    return sparse(
        c,
        "MiMoV2Flash",
        moe,
        attention=attention,
        kinds=dense_first(c, 1),
        keys=windows(c) if c.items("layer_types") else spans,
    )


def llama4_text(c: ModelConfig) -> Architecture:
    """Every `interleave_moe_layer_step`-th layer is a mixture; its experts are stored transposed."""
    hidden, size, experts = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_local_experts")
    step = c.integer("interleave_moe_layer_step", 1, 0)
    spaced = range(step - 1, c.layers(), step) if step else ()
    listed = {str(index) for index in (c.items("moe_layers") if c.has("moe_layers") else spaced)}
    weights = (
        Weight("feed_forward.experts.gate_up_proj", (experts, hidden, 2 * size), "experts"),
        Weight("feed_forward.experts.down_proj", (experts, size, hidden), "experts"),
        *linear("feed_forward.router", experts, hidden, kind="router"),
        *gated(c, prefix="feed_forward.shared_expert", size=size)[1],
    )
    mlp = Mlp(
        "moe",
        size,
        experts=experts,
        experts_per_token=c.integer("num_experts_per_tok", 1),
        expert_intermediate_size=size,
        shared_intermediate_size=size,
    )
    bias, normed = c.flag("attention_bias"), c.flag("use_qk_norm", True)

    def attention(rotated: int) -> MixerBlock:
        """Queries and keys that are rotated are normed afterwards, without a weight (Llama4TextAttention)."""
        mixer, found = grouped_query(c, bias=bias, out_bias=bias, rotary_fraction=float(rotated))
        return mixer._replace(qk_norm="head" if rotated and normed else "none"), found

    return sparse(
        c,
        "Llama4",
        (mlp, weights),
        attention=attention,
        kinds=["sparse" if str(i) in listed else "dense" for i in range(c.layers())],
        keys=_rotated(c),
        mlp_prefix="feed_forward",
        dense_size=c.integer("intermediate_size_mlp"),
        layer_class="Llama4TextDecoderLayer",
    )


def _rotated(c: ModelConfig) -> list[int]:
    """Which layers rotate queries and keys (transformers 5.23 models/llama4/configuration_llama4.py)."""
    listed = c.items("no_rope_layers")
    if listed:
        return [int(bool(one)) for one in listed][: c.layers()]
    step = c.integer("no_rope_layer_interval", 4)
    return [int((index + 1) % step != 0) for index in range(c.layers())]


def afmoe(c: ModelConfig) -> Architecture:
    hidden, size, experts = c.integer("hidden_size"), c.integer("moe_intermediate_size"), c.integer("num_experts")
    shared = c.integer("num_shared_experts", 0, 0) * size
    bias = (Weight("mlp.expert_bias", (experts,), "other"),)
    moe = mixture(
        c,
        experts=experts,
        per_token=c.integer("num_experts_per_tok"),
        size=size,
        router="router.gate",
        shared=shared,
        extra=bias,
    )
    attention_bias = c.flag("attention_bias")

    def attention(window: int) -> MixerBlock:
        mixer, weights = grouped_query(
            c, bias=attention_bias, out_bias=attention_bias, qk_norm="head", window=window, output_gate=True
        )
        return mixer, weights + linear("self_attn.gate_proj", mixer.heads * mixer.head_dim, hidden)

    return sparse(
        c,
        "Afmoe",
        moe,
        attention=attention,
        kinds=dense_first(c, c.integer("num_dense_layers", 1, 0)),
        keys=alternating(c, c.integer("global_attn_every_n_layers", 4)),
        norm_names=(*TWO, "pre_mlp_layernorm", "post_mlp_layernorm"),
        layer_traits={"norms": 4},
    )


def laguna(c: ModelConfig) -> Architecture:
    hidden, experts, size = c.integer("hidden_size"), c.integer("num_experts"), c.integer("moe_intermediate_size")
    correction = (Weight("mlp.gate.e_score_correction_bias", (experts,), "other"),)
    moe = mixture(
        c,
        experts=experts,
        per_token=c.integer("num_experts_per_tok"),
        size=size,
        shared=c.integer("shared_expert_intermediate_size", size),
        extra=correction,
    )
    bias, per_head = c.flag("attention_bias"), c.get("gating") in (True, "per-head")
    shapes = list(zip(windows(c), _heads_per_layer(c)))
    distinct = list(dict.fromkeys(shapes))

    def attention(key: int) -> MixerBlock:
        window, heads = distinct[key]
        mixer, weights = grouped_query(
            c,
            bias=bias,
            out_bias=bias,
            qk_norm="head",
            window=window,
            heads=heads,
            output_gate=True,
            head_gate=per_head,
        )
        gates = mixer.heads if per_head else mixer.heads * mixer.head_dim
        return mixer, weights + linear("self_attn.g_proj", gates, hidden)

    keys = [distinct.index(shape) for shape in shapes]
    return sparse(c, "Laguna", moe, attention=attention, kinds=dense_first(c, 1), keys=keys)


def step3p5(c: ModelConfig) -> Architecture:
    """The language model of Step-3.7: a gate for each head, and another number of heads in layers with a window."""
    size, hidden = c.integer("moe_intermediate_size"), c.integer("hidden_size")
    moe = mixture(
        c,
        experts=c.integer("num_experts" if c.has("num_experts") else "n_routed_experts"),
        per_token=c.integer("num_experts_per_tok"),
        size=size,
        shared=c.integer("share_expert_dim"),
    )
    bias, sliding = c.flag("attention_bias"), c.integer("num_sliding_attention_heads", c.integer("num_attention_heads"))

    def attention(window: int) -> MixerBlock:
        mixer, weights = grouped_query(
            c,
            bias=bias,
            out_bias=bias,
            qk_norm="head",
            window=window,
            heads=sliding if window else 0,
            output_gate=True,
            head_gate=True,
        )
        return mixer, weights + linear("self_attn.g_proj", mixer.heads, hidden)

    kinds = dense_first(c, c.integer("first_k_dense_replace", 3, 0))
    return sparse(c, "Step3p7", moe, attention=attention, kinds=kinds[: c.layers()], keys=windows(c)[: c.layers()])


def _heads_per_layer(c: ModelConfig) -> list[int]:
    """The query heads of each layer: sliding layers may have more of them."""
    heads = c.items("num_attention_heads_per_layer") or [c.integer("num_attention_heads")] * c.layers()
    if len(heads) != c.layers() or not all(type(count) is int and 0 < count <= LARGEST_EXTENT for count in heads):
        raise UnsupportedConfig("`num_attention_heads_per_layer` of this laguna config is not a number for each layer")
    return heads


def cohere2_moe(c: ModelConfig) -> Architecture:
    experts, per_token, size = (
        c.integer("num_experts"),
        c.integer("num_experts_per_tok"),
        c.integer("intermediate_size"),
    )
    shared = c.integer("num_shared_experts", 0, 0) * size
    moe = mixture(c, experts=experts, per_token=per_token, size=size, shared=shared)
    return sparse(
        c,
        "Cohere2Moe",
        moe,
        kinds=dense_first(c, c.integer("first_k_dense_replace", 0, 0)),
        keys=alternating(c, c.integer("sliding_window_pattern", 4)),
        norm_names=("input_layernorm",),
        layer_traits={"norm": "layer", "norms": 1, "parallel": True},
        logits_scale=True,
    )


def dbrx(c: ModelConfig) -> Architecture:
    hidden, heads = c.integer("d_model"), c.integer("n_heads")
    attention, ffn = c.mapping("attn_config"), c.mapping("ffn_config")
    inner = ModelConfig({**attention, **ffn}, c.family)
    kv, experts = inner.integer("kv_n_heads", 1), inner.integer("moe_num_experts", 4)
    size, dim = inner.integer("ffn_hidden_size", 3584), hidden // heads
    outer = "norm_attn_norm."
    weights = linear(f"{outer}attn.Wqkv", hidden + 2 * kv * dim, hidden) + linear(
        f"{outer}attn.out_proj", hidden, hidden
    )
    mlp = Mlp(
        "moe",
        size,
        experts=experts,
        experts_per_token=inner.integer("moe_top_k", 1),
        expert_intermediate_size=size,
    )
    stacked = tuple(
        Weight(f"ffn.experts.mlp.{name}", (experts * size, hidden), "experts") for name in ("w1", "v1", "w2")
    )
    return decoder(
        c,
        "DbrxForCausalLM",
        lambda _: layer(
            "DbrxBlock",
            (TokenMixer(heads=heads, kv_heads=kv, head_dim=dim, fused_qkv=True), weights),
            (mlp, linear("ffn.router.layer", experts, hidden, kind="router") + stacked),
            norms(hidden, f"{outer}norm_1", f"{outer}norm_2"),
            norm="layer",
        ),
        prefix="transformer.",
        stack="transformer.blocks",
        embedding="wte",
        final_norm="norm_f",
    )


def jetmoe(c: ModelConfig) -> Architecture:
    hidden, experts, size = c.integer("hidden_size"), c.integer("num_local_experts"), c.integer("intermediate_size")
    kv, dim = c.integer("num_key_value_heads"), c.integer("kv_channels")
    inner = kv * dim
    per_token = c.integer("num_experts_per_tok")
    attention = (
        Weight("self_attention.experts.bias", (hidden,), "bias"),
        Weight("self_attention.experts.input_linear.weight", (experts, inner, hidden), "experts"),
        Weight("self_attention.experts.output_linear.weight", (experts, hidden, inner), "experts"),
        Weight("self_attention.experts.router.layer.weight", (experts, hidden), "router"),
        *linear("self_attention.kv_proj", 2 * inner, hidden),
    )
    weights = (
        Weight("mlp.bias", (hidden,), "bias"),
        Weight("mlp.input_linear.weight", (experts, 2 * size, hidden), "experts"),
        Weight("mlp.output_linear.weight", (experts, hidden, size), "experts"),
        Weight("mlp.router.layer.weight", (experts, hidden), "router"),
    )
    mixer = TokenMixer(heads=kv * per_token, kv_heads=kv, head_dim=dim)
    mlp = Mlp("moe", size, experts=experts, experts_per_token=per_token, expert_intermediate_size=size)
    return decoder(
        c,
        "JetMoeForCausalLM",
        lambda _: layer("JetMoeDecoderLayer", (mixer, attention), (mlp, weights), norms(hidden, *TWO)),
        unmodelled="a mixture of attention experts",
    )


FAMILIES = {
    "afmoe": afmoe,
    "cohere2_moe": cohere2_moe,
    "dbrx": dbrx,
    "jetmoe": jetmoe,
    "laguna": laguna,
    "llama4_text": llama4_text,
    "mimo_v2_flash": mimo_v2_flash,
    "step3p5": step3p5,
}
