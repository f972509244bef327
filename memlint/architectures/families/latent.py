"""Multi-head latent attention, dense or with DeepSeek's mixture of experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from memlint.architectures.assemble import decoder
from memlint.architectures.blocks import Weights, gated, latent, layer, linear, mixture, norms
from memlint.architectures.config import ModelConfig
from memlint.architectures.model import Architecture, DecoderLayer, Mlp, TokenMixer, Weight

TWO = ("input_layernorm", "post_attention_layernorm")


def dense_first(c: ModelConfig, first: int) -> list[str]:
    """The first layers dense, the others sparse, unless `mlp_layer_types` says it."""
    kinds = [str(kind) for kind in c.items("mlp_layer_types")]
    return kinds or ["dense" if index < first else "sparse" for index in range(c.layers())]


def shared_mixture(c: ModelConfig, **traits: Any) -> tuple[Mlp, Weights]:
    """DeepSeek's experts: routed ones and shared ones that every token passes."""
    size = c.integer("moe_intermediate_size")
    return mixture(
        c,
        experts=c.integer("n_routed_experts"),
        per_token=c.integer("num_experts_per_tok", 1),
        size=size,
        shared=c.integer("n_shared_experts", 0, 0) * size,
        **traits,
    )


def _deepseek(
    c: ModelConfig,
    name: str,
    first: int,
    attend: Callable[[], tuple[TokenMixer, Weights]] | None = None,
    moe_extra: Weights = (),
    **traits: Any,
) -> Architecture:
    hidden = c.integer("hidden_size")
    mixer = attend() if attend else latent(c, bias=c.flag("attention_bias"))
    return decoder(
        c,
        f"{name}ForCausalLM",
        lambda kind: layer(
            f"{name}DecoderLayer",
            mixer,
            gated(c) if kind == "dense" else shared_mixture(c, extra=moe_extra),
            norms(hidden, *TWO),
        ),
        dense_first(c, first),
        **traits,
    )


def deepseek_v2(c: ModelConfig) -> Architecture:
    return _deepseek(c, "DeepseekV2", c.integer("first_k_dense_replace", 0, 0))


def deepseek_v3(c: ModelConfig) -> Architecture:
    return _deepseek(c, "DeepseekV3", c.integer("first_k_dense_replace", 0, 0))


def mistral4(c: ModelConfig) -> Architecture:
    return _deepseek(c, "Mistral4", c.integer("first_k_dense_replace", 0, 0))


def glm4_moe_lite(c: ModelConfig) -> Architecture:
    return _deepseek(c, "Glm4MoeLite", 1)


def axk1(c: ModelConfig) -> Architecture:
    post = norms(c.integer("hidden_size"), "mlp.post_mlp_layernorm")
    return _deepseek(c, "AXK1", c.integer("first_k_dense_replace", 1, 0), moe_extra=post)


def _indexed(c: ModelConfig) -> tuple[TokenMixer, Weights]:
    """DeepSeek sparse attention: a small indexer picks the keys that each query attends to."""
    mixer, weights = latent(c, bias=c.flag("attention_bias"))
    hidden, heads, dim = c.integer("hidden_size"), c.integer("index_n_heads"), c.integer("index_head_dim")
    indexer = (
        linear("self_attn.indexer.wq_b", heads * dim, c.integer("q_lora_rank"))
        + linear("self_attn.indexer.wk", dim, hidden)
        + norms(dim, "self_attn.indexer.k_norm", bias=True)
        + linear("self_attn.indexer.weights_proj", heads, hidden)
    )
    return mixer._replace(index_heads=heads, masks_choice=True), weights + indexer


def deepseek_v32(c: ModelConfig) -> Architecture:
    first = c.integer("first_k_dense_replace", 3, 0)
    return _deepseek(c, "DeepseekV32", first, lambda: _indexed(c))


def glm_moe_dsa(c: ModelConfig) -> Architecture:
    """DeepSeek's sparse attention; layers marked "shared" take the key choice of the layer before them."""
    shared, weights = latent(c, bias=c.flag("attention_bias"))
    hidden, attention = (
        c.integer("hidden_size"),
        {True: _indexed(c), False: (shared._replace(masks_choice=True), weights)},
    )
    kinds = dense_first(c, c.integer("first_k_dense_replace", 3, 0))
    return decoder(
        c,
        "GlmMoeDsaForCausalLM",
        lambda key: layer(
            "GlmMoeDsaDecoderLayer",
            attention[key[1]],
            gated(c) if key[0] == "dense" else shared_mixture(c),
            norms(hidden, *TWO),
        ),
        list(zip(kinds, _runs_own_indexer(c))),
    )


def _runs_own_indexer(c: ModelConfig) -> list[bool]:
    """For each layer, whether it runs an indexer of its own (configuration_glm_moe_dsa.py, `indexer_types`)."""
    listed = c.items("indexer_types") or list(c.text("index_topk_pattern"))
    if listed:
        return [kind in ("full", "F") for kind in listed]
    every, offset = c.integer("index_topk_freq", 1), c.integer("index_skip_topk_offset", 2, 0)
    return [max(index - offset + 1, 0) % every == 0 for index in range(c.layers())]


def _dense(c: ModelConfig, name: str, **traits: Any) -> Architecture:
    hidden, bias = c.integer("hidden_size"), c.flag("attention_bias")
    return decoder(
        c,
        f"{name}ForCausalLM",
        lambda _: layer(
            f"{name}DecoderLayer", latent(c, bias=bias), gated(c, bias=c.flag("mlp_bias")), norms(hidden, *TWO)
        ),
        **traits,
    )


def minicpm3(c: ModelConfig) -> Architecture:
    return _dense(c, "MiniCPM3", embedding_scale=True, logits_scale=True)


def youtu(c: ModelConfig) -> Architecture:
    return _dense(c, "Youtu")


def longcat_flash(c: ModelConfig) -> Architecture:
    """Two attentions and two dense MLPs a layer, with a mixture (some experts do nothing) across them."""
    hidden, size = c.integer("hidden_size"), c.integer("expert_ffn_hidden_size")
    real, idle = c.integer("n_routed_experts"), c.integer("zero_expert_num", 0, 0)
    mixer, attention = latent(c)
    pairs: Weights = ()
    for half in ("0", "1"):
        pairs += tuple(w._replace(name=w.name.replace("self_attn.", f"self_attn.{half}.")) for w in attention)
        pairs += gated(c, prefix=f"mlps.{half}", size=c.integer("ffn_hidden_size"))[1]
        pairs += norms(hidden, f"input_layernorm.{half}", f"post_attention_layernorm.{half}")
    experts: Weights = (
        Weight("mlp.experts.gate_up_proj", (real + idle, 2 * size, hidden), "experts"),
        Weight("mlp.experts.down_proj", (real, hidden, size), "experts"),
        *linear("mlp.router.classifier", real + idle, hidden, c.flag("router_bias"), "router"),
    )
    moe = Mlp(
        "moe",
        size,
        experts=real,
        experts_per_token=c.integer("moe_topk"),
        expert_intermediate_size=size,
        shared_intermediate_size=c.integer("ffn_hidden_size"),
    )
    return decoder(
        c,
        "LongcatFlashForCausalLM",
        lambda _: layer("LongcatFlashDecoderLayer", (mixer, ()), (moe, experts), pairs, norms=4),
        [0] * c.layers("num_layers"),
        unmodelled="two attention blocks a layer around one mixture of experts",
    )


_COMPRESSION = {0: "", 4: "sparse", 128: "heavy"}  # `compress_ratios` of the published configurations
_COMPRESSION_KINDS = {"compressed_sparse_attention": "sparse", "heavily_compressed_attention": "heavy"}


def deepseek_v4(c: ModelConfig) -> Architecture:
    """Keys that are their own values, compressed over windows of tokens, and several residual streams.

    Source: transformers 5.23 models/deepseek_v4/modeling_deepseek_v4.py. Layers that route by a table of tokens have
    the router's weight as well; the prediction layers of the checkpoint are not built.
    """
    streams = c.integer("hc_mult", 4)
    wide = streams * c.integer("hidden_size")
    head = (
        Weight("model.hc_head.hc_fn", (streams, wide), "other"),
        Weight("model.hc_head.hc_base", (streams,), "other"),
        Weight("model.hc_head.hc_scale", (1,), "other"),
    )
    return decoder(
        c,
        "DeepseekV4ForCausalLM",
        lambda kind: _deepseek_v4_layer(c, kind),
        _compressions(c),
        extra=head,
        unmodelled="layers attend to compressed keys and mix several residual streams",
    )


def _compressions(c: ModelConfig) -> list[str]:
    """How each layer compresses its keys: "", sparse (with an indexer) or heavy (configuration_deepseek_v4.py)."""
    count = c.layers()
    if c.items("layer_types"):
        return [_COMPRESSION_KINDS.get(str(kind), "") for kind in c.items("layer_types")][:count]
    if c.items("compress_ratios"):
        return [_COMPRESSION[int(ratio)] for ratio in c.items("compress_ratios")][:count]
    return ["heavy" if index < 2 or index % 2 == 0 else "sparse" for index in range(count)]


def _deepseek_v4_layer(c: ModelConfig, compression: str) -> DecoderLayer:
    hidden, heads, dim = c.integer("hidden_size"), c.integer("num_attention_heads"), c.integer("head_dim")
    streams, rank = c.integer("hc_mult", 4), c.integer("q_lora_rank")
    groups, narrow = c.integer("o_groups"), c.integer("o_lora_rank")
    attention = (
        Weight("self_attn.sinks", (heads,), "other"),
        *linear("self_attn.q_a_proj", rank, hidden),
        *norms(rank, "self_attn.q_a_norm"),
        *linear("self_attn.q_b_proj", heads * dim, rank),
        *linear("self_attn.kv_proj", dim, hidden),
        *norms(dim, "self_attn.kv_norm"),
        *linear("self_attn.o_a_proj", groups * narrow, heads * dim // groups),
        *linear("self_attn.o_b_proj", hidden, groups * narrow),
    )
    mixer = TokenMixer(heads=heads, kv_heads=1, head_dim=dim, values_are_keys=True, sinks=True)
    mixing = tuple(
        weight
        for name in ("attn_hc", "ffn_hc")
        for weight in (
            Weight(f"{name}.fn", ((2 + streams) * streams, streams * hidden), "other"),
            Weight(f"{name}.base", ((2 + streams) * streams,), "other"),
            Weight(f"{name}.scale", (3,), "other"),
        )
    )
    return layer(
        "DeepseekV4DecoderLayer",
        (mixer, attention + _compressor(c, compression)),
        shared_mixture(c),
        norms(hidden, *TWO) + mixing,
        streams=streams,
    )


def _compressor(c: ModelConfig, compression: str) -> Weights:
    """The tensors that pool windows of keys: 128 tokens, or 4 with an overlap and an indexer that chooses among
    them."""
    if not compression:
        return ()
    if compression == "heavy":
        return _pooling(c, "self_attn.compressor", c.integer("head_dim"), 128, overlaps=False)
    heads, size, name = c.integer("index_n_heads"), c.integer("index_head_dim"), "self_attn.compressor.indexer"
    return (
        *_pooling(c, "self_attn.compressor", c.integer("head_dim"), 4, overlaps=True),
        *_pooling(c, name, size, 4, overlaps=True),
        *linear(f"{name}.q_b_proj", heads * size, c.integer("q_lora_rank")),
        *linear(f"{name}.scorer.weights_proj", heads, c.integer("hidden_size")),
    )


def _pooling(c: ModelConfig, name: str, size: int, window: int, *, overlaps: bool) -> Weights:
    """Gated pooling of `window` keys; two series of them where windows overlap."""
    hidden, wide = c.integer("hidden_size"), 2 * size if overlaps else size
    return (
        Weight(f"{name}.position_bias", (window, wide), "position"),
        *linear(f"{name}.kv_proj", wide, hidden),
        *linear(f"{name}.gate_proj", wide, hidden),
        *norms(size, f"{name}.kv_norm"),
    )


FAMILIES = {
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "deepseek_v32": deepseek_v32,
    "deepseek_v4": deepseek_v4,
    "glm4_moe_lite": glm4_moe_lite,
    "glm_moe_dsa": glm_moe_dsa,
    "mistral4": mistral4,
    "axk1": axk1,
    "minicpm3": minicpm3,
    "youtu": youtu,
    "longcat_flash": longcat_flash,
    "sarvam_mla": deepseek_v3,
}
