"""Mixtures of experts with attention, norms or routing of their own.

A model type is a function from its config to an `Architecture`; `FAMILIES`, at the end, lists them. Most are one call
of `sparse`, with what differs: `olmoe` gives it its experts and an attention with a norm of queries and keys. Those
whose attention differs from layer to layer are in `experts_by_layer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, grouped_query, layer, linear, mixture, norms
from memlint.architectures.config import ModelConfig, UnsupportedConfig
from memlint.architectures.families.latent import dense_first, shared_mixture
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight
from memlint.architectures.windows import alternating, windows

TWO = ("input_layernorm", "post_attention_layernorm")
MixerBlock = tuple[TokenMixer, Weights]
MlpBlock = tuple[Mlp, Weights]


def sparse(
    c: ModelConfig,
    name: str,
    moe: MlpBlock,
    *,
    attention: Callable[[int], MixerBlock] | None = None,
    kinds: Sequence[str] | None = None,
    keys: Sequence[int] | None = None,
    norm_names: Sequence[str] = TWO,
    norm_bias: bool = False,
    mlp_prefix: str = "mlp",
    dense_size: int = 0,
    dense_bias: bool = False,
    layer_class: str = "",
    layer_traits: dict[str, Any] | None = None,
    **traits: Any,
) -> Architecture:
    """`name`ForCausalLM whose layer i is "dense" or "sparse" (`kinds`) with the window `keys[i]`."""
    bias = c.flag("attention_bias")
    spans = windows(c) if keys is None else list(keys)
    which: Sequence[str] = ["sparse"] * len(spans) if kinds is None else kinds

    def make(key: tuple[str, int]) -> DecoderLayer:
        kind, window = key
        mixer = attention(window) if attention else grouped_query(c, bias=bias, out_bias=bias, window=window)
        mlp = moe if kind == "sparse" else gated(c, prefix=mlp_prefix, size=dense_size, bias=dense_bias)
        names = norms(c.integer("hidden_size"), *norm_names, bias=norm_bias)
        return layer(layer_class or f"{name}DecoderLayer", mixer, mlp, names, **(layer_traits or {}))

    return decoder(c, f"{name}ForCausalLM", make, list(zip(which, spans)), final_bias=norm_bias, **traits)


def _qk_norm(c: ModelConfig, kind: str, **traits: Any) -> Callable[[int], MixerBlock]:
    bias = c.flag("attention_bias")
    return lambda window: grouped_query(c, bias=bias, out_bias=bias, qk_norm=kind, window=window, **traits)


def plain_mixture(
    c: ModelConfig, *, count: str = "num_experts", size: str = "intermediate_size", **traits: Any
) -> MlpBlock:
    return mixture(
        c, experts=c.integer(count), per_token=c.integer("num_experts_per_tok"), size=c.integer(size), **traits
    )


def olmoe(c: ModelConfig) -> Architecture:
    return sparse(c, "Olmoe", plain_mixture(c), attention=_qk_norm(c, "full"))


def flex_olmo(c: ModelConfig) -> Architecture:
    post = ("post_attention_layernorm", "post_feedforward_layernorm")
    return sparse(c, "FlexOlmo", plain_mixture(c), attention=_qk_norm(c, "full"), norm_names=post)


def minimax_m2(c: ModelConfig) -> Architecture:
    moe = plain_mixture(c, count="num_local_experts")
    return sparse(c, "MiniMaxM2", moe, attention=lambda key: grouped_query(c, qk_norm="full", window=key))


def mellum(c: ModelConfig) -> Architecture:
    kinds = [str(kind) for kind in c.items("mlp_layer_types")] or None
    return sparse(
        c, "Mellum", plain_mixture(c, size="moe_intermediate_size"), attention=_qk_norm(c, "head"), kinds=kinds
    )


def _granite(c: ModelConfig, name: str, shared: int) -> Architecture:
    mlp, weights = plain_mixture(c, count="num_local_experts", prefix="block_sparse_moe", router="router")
    if shared:
        hidden = c.integer("hidden_size")
        weights += linear("shared_mlp.input_linear", 2 * shared, hidden)
        weights += linear("shared_mlp.output_linear", hidden, shared)
    return sparse(
        c,
        name,
        (mlp._replace(shared_intermediate_size=shared), weights),
        layer_traits={"residual_scale": True},
        embedding_scale=True,
        logits_scale=True,
    )


def granitemoe(c: ModelConfig) -> Architecture:
    return _granite(c, "GraniteMoe", 0)


def granitemoe_swa(c: ModelConfig) -> Architecture:
    """Granite's mixture with sliding windows and sinks."""
    bias, heads = c.flag("attention_bias"), c.integer("num_attention_heads")

    def attention(window: int) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=bias, out_bias=bias, window=window, sinks=True)
        return mixer, (*weights, Weight("self_attn.sinks", (heads,), "other"))

    moe = plain_mixture(c, count="num_local_experts", prefix="block_sparse_moe", router="router")
    keys, traits = alternating(c, 4, first=0), {"residual_scale": True}
    return sparse(
        c,
        "GraniteMoeSWA",
        moe,
        attention=attention,
        keys=keys,
        layer_traits=traits,
        embedding_scale=True,
        logits_scale=True,
    )


def aria_text(c: ModelConfig) -> Architecture:
    """Aria's mixture: stacks as their product reads them, and two shared experts in one."""
    hidden, size, experts = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("moe_num_experts")
    shared, bias = size * c.integer("moe_num_shared_experts"), c.flag("mlp_bias")
    weights = (
        *linear("mlp.router", experts, hidden, kind="router"),
        Weight("mlp.experts.gate_up_proj", (experts, hidden, 2 * size), "experts"),
        Weight("mlp.experts.down_proj", (experts, size, hidden), "experts"),
        *gated(c, prefix="mlp.shared_experts", size=shared, bias=bias)[1],
    )
    mlp = Mlp(
        "moe",
        size,
        "silu",
        experts=experts,
        experts_per_token=min(c.integer("moe_topk"), experts),
        expert_intermediate_size=size,
        shared_intermediate_size=shared,
    )
    return sparse(c, "AriaText", (mlp, weights))


def deepseek_ocr2_text(c: ModelConfig) -> Architecture:
    """DeepSeek-OCR 2's language model: DeepSeek V2's mixture behind plain attention."""
    kinds = [str(kind) for kind in c.items("mlp_layer_types")] or ["dense"] + ["sparse"] * (c.layers() - 1)
    return sparse(c, "DeepseekOcr2Text", shared_mixture(c), kinds=kinds, dense_bias=c.flag("mlp_bias"))


def granitemoeshared(c: ModelConfig) -> Architecture:
    return _granite(c, "GraniteMoeShared", c.integer("shared_intermediate_size", 0, 0))


def phimoe(c: ModelConfig) -> Architecture:
    moe = plain_mixture(c, count="num_local_experts", router="router")
    return sparse(c, "Phimoe", moe, norm_bias=True, head_bias=c.flag("lm_head_bias"), layer_traits={"norm": "layer"})


def gpt_oss(c: ModelConfig) -> Architecture:
    hidden, size, experts = c.integer("hidden_size"), c.integer("intermediate_size"), c.integer("num_local_experts")
    heads, bias = c.integer("num_attention_heads"), c.flag("attention_bias", True)
    weights = linear("mlp.router", experts, hidden, True, "router") + (
        Weight("mlp.experts.gate_up_proj", (experts, hidden, 2 * size), "experts"),
        Weight("mlp.experts.gate_up_proj_bias", (experts, 2 * size), "bias"),
        Weight("mlp.experts.down_proj", (experts, size, hidden), "experts"),
        Weight("mlp.experts.down_proj_bias", (experts, hidden), "bias"),
    )
    mlp = Mlp(
        "moe",
        size,
        "silu",
        experts=experts,
        experts_per_token=c.integer("num_experts_per_tok"),
        expert_intermediate_size=size,
    )

    def attention(window: int) -> MixerBlock:
        mixer, own = grouped_query(c, bias=bias, out_bias=bias, window=window, sinks=True)
        return mixer, (*own, Weight("self_attn.sinks", (heads,), "other"))

    return sparse(c, "GptOss", (mlp, weights), attention=attention, keys=_every_second_full(c))


def _every_second_full(c: ModelConfig) -> list[int]:
    """Sliding, full, sliding, ... unless `layer_types` says it (configuration_gpt_oss.py)."""
    return alternating(c, 2)


def ernie4_5_moe(c: ModelConfig) -> Architecture:
    bias, experts = c.flag("use_bias"), c.integer("moe_num_experts")
    size, shared = c.integer("moe_intermediate_size"), c.integer("moe_num_shared_experts", 0, 0)
    statics = (Weight("mlp.gate.moe_statics.e_score_correction_bias", (1, experts), "other"),)
    moe = mixture(
        c,
        experts=experts,
        per_token=c.integer("moe_k"),
        size=size,
        shared=shared * size,
        shared_bias=bias,
        extra=statics,
    )
    first, last = c.integer("moe_layer_start_index", 0, 0), c.integer("moe_layer_end_index", -1, -1)
    last = c.layers() - 1 if last == -1 else last
    every = c.integer("moe_layer_interval", 1)
    kinds = ["sparse" if (i + 1) % every == 0 and first <= i <= last else "dense" for i in range(c.layers())]
    return sparse(
        c,
        "Ernie4_5_Moe",
        moe,
        attention=lambda key: grouped_query(c, bias=bias, out_bias=bias, window=key),
        kinds=kinds,
        dense_bias=bias,
        head_bias=bias,
    )


def ernie4_5_vl_moe(c: ModelConfig) -> Architecture:
    """Two mixtures side by side: tokens of text go through the first, those of images through the smaller second."""
    bias, experts = c.flag("use_bias"), c.integer("moe_num_experts")
    sizes = [int(size) for size in c.items("moe_intermediate_size") or (1536, 512) if isinstance(size, int)]
    if len(sizes) < 2:
        raise UnsupportedConfig(f"`moe_intermediate_size` of this {c.family} config has no two sizes")
    hidden, shared = c.integer("hidden_size"), c.integer("moe_num_shared_experts", 0, 0) * sizes[0]
    mlp, words = mixture(
        c,
        experts=experts,
        per_token=c.integer("moe_k"),
        size=sizes[0],
        prefix="mlp.text_moe",
        extra=_statics("text", c),
    )
    images = (
        *linear("mlp.vision_moe.gate", experts, hidden, kind="other"),
        Weight("mlp.vision_moe.experts.gate_up_proj", (experts, 2 * sizes[1], hidden), "other"),
        Weight("mlp.vision_moe.experts.down_proj", (experts, hidden, sizes[1]), "other"),
        *_statics("vision", c),
    )
    beside = gated(c, prefix="mlp.shared_experts", size=shared, bias=bias)[1] if shared else ()
    kinds = ["sparse" if kind == "sparse" else "dense" for kind in c.items("mlp_layer_types")]
    kinds = kinds or ["dense"] + ["sparse"] * (c.layers() - 1)
    return sparse(
        c,
        "Ernie4_5_VLMoe",
        (mlp._replace(shared_intermediate_size=shared), words + images + beside),
        attention=lambda key: grouped_query(c, bias=bias, out_bias=bias, window=key),
        kinds=kinds,
        dense_bias=bias,
        head_bias=bias,
    )


def _statics(name: str, c: ModelConfig) -> tuple[Weight, ...]:
    shape = (1, c.integer("moe_num_experts"))
    return (Weight(f"mlp.{name}_moe.gate.moe_statics.e_score_correction_bias", shape, "other"),)


def glm4_moe(c: ModelConfig) -> Architecture:
    bias, kind = c.flag("attention_bias"), "head" if c.flag("use_qk_norm") else "none"
    return sparse(
        c,
        "Glm4Moe",
        shared_mixture(c),
        attention=lambda key: grouped_query(c, bias=bias, qk_norm=kind, window=key),
        kinds=dense_first(c, c.integer("first_k_dense_replace", 1, 0)),
    )


def dots1(c: ModelConfig) -> Architecture:
    return sparse(
        c,
        "Dots1",
        shared_mixture(c),
        attention=_qk_norm(c, "head"),
        kinds=dense_first(c, c.integer("first_k_dense_replace", 0, 0)),
    )


def solar_open(c: ModelConfig) -> Architecture:
    bias, kind = c.flag("attention_bias"), "head" if c.flag("use_qk_norm") else "none"
    return sparse(
        c, "SolarOpen", shared_mixture(c), attention=lambda key: grouped_query(c, bias=bias, qk_norm=kind, window=key)
    )


def kolibri1(c: ModelConfig) -> Architecture:
    """EXAONE 4's attention, GLM-4's four norms, and a shared expert in every layer; every fifth one attends fully."""
    moe = mixture(
        c,
        experts=c.integer("num_experts"),
        per_token=c.integer("num_experts_per_tok"),
        size=c.integer("moe_intermediate_size"),
        shared=c.integer("shared_expert_intermediate_size"),
    )

    def attention(window: int) -> MixerBlock:
        return grouped_query(c, qk_norm="head", window=window, rotary_fraction=1.0 if window else 0.0)

    names = ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm")
    keys, traits = alternating(c, 5), {"norms": 4}
    return sparse(c, "Kolibri1", moe, attention=attention, keys=keys, norm_names=names, layer_traits=traits)


def exaone_moe(c: ModelConfig) -> Architecture:
    size = c.integer("moe_intermediate_size")
    moe = mixture(
        c,
        experts=c.integer("num_experts"),
        per_token=c.integer("num_experts_per_tok"),
        size=size,
        shared=c.integer("num_shared_experts", 1, 0) * size,
    )
    every = c.get("sliding_window_pattern")
    return sparse(
        c,
        "ExaoneMoe",
        moe,
        attention=lambda key: grouped_query(c, qk_norm="head", window=key),
        kinds=dense_first(c, c.integer("first_k_dense_replace", 1, 0)),
        keys=alternating(c, every) if isinstance(every, int) and every > 0 else windows(c),
    )


def hy_v3(c: ModelConfig) -> Architecture:
    size = c.integer("moe_intermediate_size")
    moe = mixture(
        c,
        experts=c.integer("num_experts"),
        per_token=c.integer("num_experts_per_tok", 1),
        size=size,
        shared=c.integer("num_shared_experts", 1, 0) * size,
    )
    return sparse(
        c,
        "HYV3",
        moe,
        attention=_qk_norm(c, "head"),
        kinds=dense_first(c, c.integer("first_k_dense_replace", 1, 0)),
        dense_bias=c.flag("mlp_bias"),
    )


def hunyuan_v1_moe(c: ModelConfig) -> Architecture:
    bias, experts, size = c.flag("attention_bias"), c.get("num_experts"), c.integer("intermediate_size")
    per_token = c.get("moe_topk", 1)
    count = experts if isinstance(experts, int) else min(map(int, experts))
    moe = mixture(
        c,
        experts=count,
        per_token=per_token if isinstance(per_token, int) else max(map(int, per_token)),
        size=size,
        router="gate.wg",
        shared=size,
        shared_name="shared_mlp",
    )

    def attention(window: int) -> MixerBlock:
        mixer, weights = grouped_query(c, bias=bias, out_bias=bias, window=window)
        names = norms(mixer.head_dim, "self_attn.query_layernorm", "self_attn.key_layernorm")
        return mixer._replace(qk_norm="head"), weights + names

    return sparse(c, "HunYuanMoEV1", moe, attention=attention)


FAMILIES = {
    "aria_text": aria_text,
    "dots1": dots1,
    "ernie4_5_moe": ernie4_5_moe,
    "exaone_moe": exaone_moe,
    "flex_olmo": flex_olmo,
    "glm4_moe": glm4_moe,
    "gpt_oss": gpt_oss,
    "granitemoe": granitemoe,
    "granitemoe_swa": granitemoe_swa,
    "granitemoeshared": granitemoeshared,
    "hunyuan_v1_moe": hunyuan_v1_moe,
    "hy_v3": hy_v3,
    "kolibri1": kolibri1,
    "mellum": mellum,
    "minimax_m2": minimax_m2,
    "olmoe": olmoe,
    "phimoe": phimoe,
    "sarvam_moe": glm4_moe,
    "solar_open": solar_open,
}
